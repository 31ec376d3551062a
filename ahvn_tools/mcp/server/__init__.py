"""Out: tools of a toolkit go to any MCP client.

`provider` asks a catalog for what is listed and called, `request` is what a client asks, `progress` is what it is told
before the result and `listening` between requests, `tool` shows one spec as a FastMCP tool; `serving` runs a server,
`stopping` and `standard_input` end it.
"""
