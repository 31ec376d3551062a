"""Servers that misbehave: `python tests/mcp/hostile NAME` over stdio (no name: the table of all); `web` over HTTP."""
