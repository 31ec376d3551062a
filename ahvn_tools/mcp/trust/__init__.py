"""What protects a host from the definitions and messages of MCP servers."""
