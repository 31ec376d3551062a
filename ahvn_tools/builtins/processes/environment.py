"""The environment variables of processes: a short list, without secrets."""

from __future__ import annotations

import os

from ahvn_tools.builtins.processes.private_folder import private_folder

_INHERITED = ("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "LC_TIME", "TZ")


def clean_environment(*names: str, **variables: str) -> dict[str, str]:
    """Return PATH, the language, the time zone, a private HOME, a plain TERM, and the given variables.

    `names` are variables of this process to pass on, if it has them. HOME is an empty folder that only this user can
    read. Relative folders of PATH are left out: they would name programs of the folder in which the process runs.
    """
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    named = {name: os.environ[name] for name in names if name in os.environ}
    return {
        "LANG": "C.UTF-8",
        **inherited,
        "PATH": _absolute_path(),
        "TERM": "dumb",
        "HOME": str(private_folder.home),
        **named,
        **variables,
    }


def _absolute_path() -> str:
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if folder.startswith("/")) or os.defpath
