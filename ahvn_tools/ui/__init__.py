"""The playground: pages that show the tools of a toolkit and try them, as an ASGI app. It needs the extra `ui`.

`site` has the app and what each request must pass, `facts` what the pages say of a tool, `trying` runs calls,
`snippets` has code to copy, `approving` decides what waits, `servers` connects MCP servers. The pages are in
`templates/`, their styles and scripts in `static/`, with the files of others in `static/vendor/`.
"""

from ahvn_tools.ui.site import app

__all__ = ["app"]
