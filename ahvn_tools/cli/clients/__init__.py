"""The MCP configurations of other programs: where their files are, and how an entry is added without other changes."""
