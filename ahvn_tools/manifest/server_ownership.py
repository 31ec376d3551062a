"""Who closes the MCP servers of a toolkit that was made from others."""

from __future__ import annotations

import contextlib

from ahvn_tools.errors import ToolSpecError
from ahvn_tools.toolkit import Toolkit


def close_servers(kit: Toolkit) -> None:
    """Close the MCP servers of a toolkit that was not loaded to its end, or that nobody uses any more."""
    for name in list(kit.servers):
        with contextlib.suppress(ToolSpecError):
            kit.remove_mcp(name)


def adopt_servers(kit: Toolkit, other: Toolkit) -> None:
    """Take over the MCP servers of another toolkit, whose tools were added, so that `servers` closes them.

    The audiences with a toolkit of their own have one here, too.
    """
    own = kit._view.store.imported_servers  # noqa: SLF001  # of another package of this project
    for name, imported in other._view.store.imported_servers.items():  # noqa: SLF001  # as above
        unique, number = name, 1
        while unique in own:
            number += 1
            unique = f"{name}_{number}"
        own[unique] = imported
    kit._view.store.separate_audiences |= other._view.store.separate_audiences  # noqa: SLF001  # as above
