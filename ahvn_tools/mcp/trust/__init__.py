"""Protection of a host from the tool definitions and messages of MCP servers."""
