"""MCP's client side: connections to servers, and the tools that are imported from them."""
