"""The client end of MCP: connections to servers and the tools imported from them."""
