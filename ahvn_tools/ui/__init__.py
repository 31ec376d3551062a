"""The playground: pages that show the tools of a toolkit and try them, as an ASGI app. It needs the extra `ui`.

`site` has the app and what each request must pass, `facts` what the pages say of a tool, `trying` runs calls,
`snippets` has code to copy, `approving` decides what waits, `servers` connects MCP servers. The pages are in
`templates/`, their styles and scripts in `static/`, with the files of others in `static/vendor/`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ahvn_tools.ui.site import app

__all__ = ["app"]


def __getattr__(name: str) -> Any:
    """Import the app at its first use (PEP 562)."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ahvn_tools.ui import site

    return site.app
