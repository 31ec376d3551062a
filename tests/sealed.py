"""A process that cannot reach a provider: it has no keys in its environment and no network access."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import ahvn_tools

PREFIXES = (
    "ANTHROPIC_", "AWS_", "BEDROCK_", "GEMINI_", "GOOGLE_", "LANGCHAIN_", "LANGSMITH_", "MISTRAL_", "OLLAMA_",
    "OPENAI_",
)  # fmt: skip
"""How the variables of the providers' SDKs begin."""

PROXIES = ("all_proxy", "http_proxy", "https_proxy", "no_proxy")

GUARD = """
import os
import sys

LOCAL = {"127.0.0.1", "localhost", None}


def guard(event, arguments):
    if event in {"socket.connect", "socket.sendto"} and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    elif event == "socket.getaddrinfo":
        host = arguments[0]
    else:
        return
    if host not in LOCAL:
        os.write(2, f"no connection to {host}".encode())
        os._exit(70)  # an exception would be caught, or tried again


sys.addaudithook(guard)
sys.modules.update(dict.fromkeys(os.environ.get("MISSING", "").split(), None))
"""


def without_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without what the SDKs read."""
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith(PREFIXES) and name.lower() not in PROXIES
    }


def run(*arguments: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python without keys, but with these variables; a `folder` of the test's own holds the guard.

    Modules named in the variable `MISSING` are as if not installed. Raises AssertionError when it leaves a process.
    """
    (folder / "sitecustomize.py").write_text(GUARD)
    package = Path(ahvn_tools.__file__).parents[1]
    environment = {**without_keys(os.environ), "PYTHONPATH": os.pathsep.join([str(folder), str(package)]), **variables}
    process = subprocess.Popen(
        [sys.executable, *arguments],
        env={**environment, "AWS_EC2_METADATA_DISABLED": "true", "PYTHONUTF8": "1"},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=50)
    finally:
        is_left = kill(process.pid)
    assert not is_left, f"{arguments} left a process behind"
    return subprocess.CompletedProcess(arguments, process.returncode, output, errors)


def kill(group: int) -> bool:
    """End the remaining processes of a group; return whether there were any."""
    try:
        os.killpg(group, 9)
    except ProcessLookupError:
        return False
    return True
