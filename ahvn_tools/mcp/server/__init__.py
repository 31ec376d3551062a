"""An MCP server over anything that lists tool definitions and runs calls.

`app` is the FastMCP server, and `tool` turns a definition into a FastMCP tool. `request` is what a client sent,
`progress` what it receives during a call. `http_guards` refuses what mcp would mishandle, and `large_results` sends
large results without blocking the loop. `run` runs a server over stdio or HTTP, `signals` and `standard_streams` end
it. `message_writer` writes to a client over stdio.
"""
