"""MCP at both ends: calling through a client, and showing a spec as a FastMCP tool."""
