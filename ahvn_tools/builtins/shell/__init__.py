"""Shell: the tools that run shell commands in the folders of a workspace."""

from __future__ import annotations

from ahvn_tools.builtins.shell.command_result import CommandResult
from ahvn_tools.builtins.shell.job_tools import JobTools
from ahvn_tools.builtins.shell.rules import HARMLESS_COMMANDS, READING_COMMANDS

__all__ = ["HARMLESS_COMMANDS", "READING_COMMANDS", "CommandResult", "Shell"]


class Shell(JobTools):
    """Tools that run shell commands in the folders of a workspace, to their end or as background jobs.

    `workspace`: a Workspace, whose folders and `read_only` apply, or roots.
    `sandbox`: "auto" uses bubblewrap where it works; a result says so when nothing confines the command.
    `timeout`: seconds of a command. A model can choose a shorter time, and no longer one.
    `allow`: rules such as "git status *" for what runs without an approval. By default they are `READING_COMMANDS` in a
    sandbox and `HARMLESS_COMMANDS` without. `deny`: rules for what never runs. Deny beats allow. A deny rule stops
    mistakes, and only the sandbox stops an attacker.
    `approve`: "risky" asks for what no rule allows, also in a sandbox; "always" for each command, "never" for none.
    `environment`: variables in addition to `clean_environment()`. Commands can read all of them.
    `network`: whether a command in the sandbox reaches the network.
    `limits`: of each command and job; `timeout` and `job_timeout` replace its own. By default a result has 30,000 bytes
    of each stream, and `shell_output` reads the rest.
    `shells`: the shells that a model may choose; the first one that exists is the default.
    `max_jobs` jobs run at once in one session, `max_jobs_in_all` in all sessions together.

    Jobs and stored outputs end with `close()`, with the object, and with Python.

    >>> import tempfile
    >>> from ahvn_tools import Toolkit
    >>> with tempfile.TemporaryDirectory() as folder, Shell(folder, sandbox="none", allow=["echo *"]) as shell:
    ...     result = Toolkit("commands").add(shell).call("shell_exec", {"cmd": "echo one | echo two"})
    >>> result.stdout.strip(), result.exit_code
    ('two', 0)
    """
