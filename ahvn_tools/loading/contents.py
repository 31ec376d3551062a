"""Contents: what a source contains, before it becomes a toolkit, and what that toolkit owns and remembers of it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ahvn_tools.errors import SourceError, ToolCallError, ToolSpecError
from ahvn_tools.sources.budget import BudgetError
from ahvn_tools.toolkit import Toolkit

log = logging.getLogger(__name__)


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
    skills: Mapping[str, bool] = field(default_factory=dict)
    """The folders of skills, as `Toolkit.add_skills` takes them, and whether they are trusted."""
    errors: tuple[SourceError, ...] = ()
    """The parts of the source that were skipped because they cannot be loaded."""

    @property
    def things(self) -> tuple[Any, ...]:
        """What `Toolkit.add` takes: the toolkit, or else the tools."""
        return self.tools if self.toolkit is None else (self.toolkit,)

    @property
    def is_empty(self) -> bool:
        """Whether the source contains nothing, not even an error."""
        return not (self.things or self.servers or self.skills or self.errors)


@contextlib.contextmanager
def skipping(file: str | None, remember: Callable[[SourceError], None]) -> Iterator[None]:
    """Log what is wrong with a file and pass it to `remember`, instead of raising it; without a file raise it.

    Errors of tools, servers and files are meant, and no others.
    """
    try:
        yield
    except BudgetError:  # nothing is left for the other files
        raise
    except (ToolSpecError, ToolCallError, OSError) as error:
        if file is None:
            raise
        cause = error.__cause__ if isinstance(error, SourceError) else error  # our own frames explain no mistake
        is_code = not isinstance(cause, ToolCallError)  # a server that cannot be reached is no mistake in code
        log.warning("%s was skipped: %s", file, error, exc_info=cause if is_code else None)
        message = str(error) if file in str(error) else f"{file}: {error}"
        skipped = SourceError(message, file=file, line=getattr(error, "line", None))
        skipped.__cause__ = error
        remember(skipped)


def add_skills(kit: Toolkit, contents: Contents, **options: Any) -> None:
    """Add the skills of a source to a toolkit. One of several that cannot be used is logged and skipped."""
    for folder, is_trusted in contents.skills.items():
        try:
            kit.add_skills(folder, trust=is_trusted, **options)
        except SourceError as error:
            if contents.skills.keys() == {folder}:
                raise
            log.warning("%s was skipped: %s", folder, error)
            add_load_errors(kit, [error])


def add_load_errors(kit: Toolkit, errors: Iterable[SourceError]) -> None:
    """Add errors to those of a toolkit."""
    store = kit._view.store  # noqa: SLF001  # of this project
    store.load_errors = (*store.load_errors, *errors)


def close_servers(kit: Toolkit) -> None:
    """Close the MCP servers of a toolkit that was not loaded to its end, or that nobody uses any more."""
    for name in list(kit.servers):
        with contextlib.suppress(ToolSpecError):
            kit.remove_mcp(name)


def adopt_servers(kit: Toolkit, other: Toolkit) -> None:
    """Take over the MCP servers of another toolkit, whose tools were added, so that `servers` closes them.

    The audiences with a toolkit of their own have one here, too.
    """
    own = kit._view.store.imported_servers  # noqa: SLF001  # of this project
    for name, imported in other._view.store.imported_servers.items():  # noqa: SLF001  # as above
        unique, number = name, 1
        while unique in own:
            number += 1
            unique = f"{name}_{number}"
        own[unique] = imported
    kit._view.store.separate_audiences |= other._view.store.separate_audiences  # noqa: SLF001  # as above
