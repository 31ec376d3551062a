"""A server of the tools of a Workspace and an empty tool: `python -m tests.benchmarks.file_server FOLDER`."""

from __future__ import annotations

import sys

from ahvn_tools import Toolkit, serve
from ahvn_tools.builtins import Workspace


def nothing() -> None:
    """Do nothing: what a call of this tool costs is the protocol."""


if __name__ == "__main__":
    serve(Toolkit("files").add(Workspace(sys.argv[1])).add(nothing), "stdio")
