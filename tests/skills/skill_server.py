"""An MCP server with the skills of a folder: `python skill_server.py FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

from fastmcp import FastMCP
from fastmcp.server.providers.skills import SkillsDirectoryProvider


def make_server(folder: Path, **options: object) -> FastMCP:
    """Return a server with these skills, which it lists again for each request."""
    server = FastMCP("library")
    server.add_provider(SkillsDirectoryProvider(folder, reload=True, **options))
    return server


if __name__ == "__main__":
    make_server(Path(sys.argv[1])).run(show_banner=False)
