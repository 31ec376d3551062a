"""Skills: folders of instructions for one kind of task each, as https://agentskills.io describes them.

`skill` reads a `SKILL.md` and says what is wrong with it, `folders` finds skills in folders and installed packages,
`server` on an MCP server, `export` writes a toolkit as a skill.
"""

from __future__ import annotations

from typing import Final

SKILL_FILE: Final = "SKILL.md"
"""The file that makes a folder a skill."""

SKILL_SCHEME: Final = "skill://"
"""With which the URIs of skills on MCP servers begin, as FastMCP serves them."""
