"""Contents: what a source contains, before it becomes a toolkit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ahvn_tools.errors import SourceError
from ahvn_tools.toolkit import Toolkit


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ServerSource:
    """An MCP server to be added with `Toolkit.add_mcp`."""

    server: Any = field(repr=False)
    """As `add_mcp` takes it: credentials may be in it."""
    name: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Options of `add_mcp`: credentials may be among them."""
    file: str | None = None
    """The file of a folder that names the server: it is skipped if the server cannot be added."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Contents:
    """What a source contains."""

    name: str
    """The name of a toolkit of it."""
    toolkit: Toolkit | None = None
    """The toolkit that the source defines, where it defines one; then there are no `tools`."""
    tools: tuple[Any, ...] = ()
    """What `Toolkit.add` takes, in the order of the source."""
    servers: tuple[ServerSource, ...] = ()
    errors: tuple[SourceError, ...] = ()
    """The parts of the source that were skipped because they cannot be loaded."""

    @property
    def is_empty(self) -> bool:
        """Whether the source contains nothing, not even an error."""
        return self.toolkit is None and not (self.tools or self.servers or self.errors)
