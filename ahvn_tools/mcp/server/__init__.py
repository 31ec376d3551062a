"""An MCP server over anything that lists tool definitions and runs calls.

`app` is the FastMCP server, and `tool` turns a definition into a FastMCP tool. `request` is what a client sent,
`progress` what it receives during a call. `http_guards` refuses what mcp would mishandle, and `large_results` sends
large results without blocking the loop. `run` runs a server over stdio or HTTP, and `signals` ends it. Over stdio,
`standard_streams` reserves standard input and output for the client, `message_reader` reads from it, and
`message_writer` writes to it.
"""
