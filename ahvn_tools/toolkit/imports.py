"""Imports: the tools that a toolkit has from MCP servers, kept in step with what the servers tell."""

from __future__ import annotations

import asyncio
import fnmatch
import functools
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from ahvn_tools.errors import BindError, ToolkitError, ToolLookupError, near_misses
from ahvn_tools.execution.call import Middleware
from ahvn_tools.execution.threads import in_thread
from ahvn_tools.mcp.imported import Server, ServerOptions, servers_of
from ahvn_tools.middleware.postprocess import Postprocess
from ahvn_tools.spec import ToolSpec
from ahvn_tools.toolkit.entry import Entry, EntryOptions
from ahvn_tools.toolkit.exclusive import Exclusive

if TYPE_CHECKING:
    from ahvn_tools.mcp.changes import Changes
    from ahvn_tools.toolkit.catalog import Catalog

log = logging.getLogger(__name__)


class ImportOptions(ServerOptions, total=False):
    """What `add_mcp` takes: what there is to say of the server, and of the tools that come from it."""

    prefix: str | None
    """Stands before each name; for several servers at once, each one's name and `_` by default."""
    include: Collection[str]
    """Take these tools alone: names as the server has them, or patterns such as `"get_*"`."""
    exclude: Collection[str]
    """Leave these out."""
    rename: Mapping[str, str]
    """New names: a server's -> here."""
    group: str
    tags: Collection[str]
    audience: str | Collection[str]
    preset: Mapping[str, Mapping[str, Any]]
    """Tool -> parameters that are fixed here; `"*"` stands for each tool that has them."""
    middleware: Sequence[Middleware]
    postprocess: Postprocess
    requires_approval: Any
    exclusive: Exclusive


_OF_ENTRIES = ("group", "tags", "audience", "middleware", "postprocess", "requires_approval", "exclusive")


@dataclass(eq=False)
class Import:
    """One server of a toolkit, and the tools that are here from it."""

    server: Server
    options: ImportOptions
    prefix: str
    timeout: float | None
    entries: dict[str, Entry] = field(default_factory=dict)
    """By the server's names."""
    clashes: dict[str, str] = field(default_factory=dict)
    """Tools whose names were taken here when the server added them."""
    error: Exception | None = None
    """Why the server could not be asked, where it is one of several."""

    def takes(self, name: str) -> bool:
        """Tell whether a tool of the server is wanted."""
        include, exclude = self.options.get("include", ()), self.options.get("exclude", ())
        return (not include or _matches(name, include)) and not _matches(name, exclude)

    def name(self, name: str) -> str:
        """Return what a tool of the server is called here."""
        return self.prefix + self.options.get("rename", {}).get(name, name)

    def new_entries(self, catalog: Catalog) -> dict[str, Entry]:
        """Return entries for the tools that are not here yet. Raises ToolkitError and BindError."""
        recipes = self.server.recipes(timeout=self.timeout)
        return {
            name: Entry(
                ToolSpec(*recipes[name]), self.name(name), f"the MCP server {self.server.name!r}",
                self._entry_options(name, recipes[name][0].inputs.parameters), catalog.keys,
            )
            for name in recipes
            if name not in self.entries and self.takes(name)
        }  # fmt: skip

    def refuse_unknown(self) -> None:
        """Raise ToolLookupError for names in the options that the server does not have."""
        known = self.server.tools.keys() | self.server.refused.keys()
        preset = self.options.get("preset", {}).keys() - {"*"}
        plain = {name for name in self.options.get("include", ()) if not _is_pattern(name)}
        for name in sorted((self.options.get("rename", {}).keys() | preset | plain) - known):
            raise ToolLookupError(
                f"The MCP server {self.server.name!r} has no tool {name!r}. {near_misses(name, self.server.tools)}"
            )

    def _entry_options(self, name: str, parameters: Collection[str]) -> EntryOptions:
        given = {key: self.options[key] for key in _OF_ENTRIES if key in self.options}  # type: ignore[literal-required]  # the keys of both
        preset = self.options.get("preset", {})
        everywhere = {key: value for key, value in preset.get("*", {}).items() if key in parameters}
        return cast("EntryOptions", {**given, "preset": {**everywhere, **preset.get(name, {})}})


class Imports:
    """The servers of one toolkit, by name."""

    def __init__(self, catalog: Catalog, state: Callable[[], Mapping[str, Any]]) -> None:
        """Take the catalog that their tools are in, and what gives the toolkit's own state."""
        self._catalog = catalog
        self._state = state
        self._lock = catalog.importing
        self.by_name: dict[str, Import] = catalog.servers

    @property
    def servers(self) -> dict[str, Server]:
        """The servers by name."""
        return {name: one.server for name, one in self.by_name.items()}

    async def add(self, server: Any, name: str | None, timeout: float | None, options: ImportOptions) -> None:
        """Connect to a server, or to all that a configuration names, and add their tools.

        Of several, those that cannot be reached are left for `refresh`, with a warning. Raises ToolConnectionError when
        none can be reached, ToolkitError for a name that is taken; nothing is added then, and nothing stays open.
        """
        made = _imports(server, name, timeout, options)
        for one in made:
            one.server.host_state = self._state
            if one.server.name in self.by_name:
                raise ToolkitError(f"There is a server {one.server.name!r} already. Give this one a name=….")
        try:
            await asyncio.gather(*map(_load, made))
            failed = [one for one in made if one.error is not None]
            if failed and len(failed) == len(made):
                raise failed[0].error or ToolkitError("No server could be reached.")
            for one in failed:
                log.warning("The MCP server %r cannot be reached: %s", one.server.name, one.error)
            (
                await in_thread(lambda _: self._put(made))
            ).get()  # there may be many tools, and nobody is to wait for them
        except BaseException:
            await asyncio.gather(*(one.server.aclose() for one in made), return_exceptions=True)
            raise

    def _put(self, made: Sequence[Import]) -> None:
        """Add all of these or none."""
        with self._lock:
            self._put_now(made)

    def _put_now(self, made: Sequence[Import]) -> None:
        found = {one.server.name: {} if one.error else one.new_entries(self._catalog) for one in made}
        for one in made:
            if one.error is None:
                one.refuse_unknown()
        self._catalog.add([entry for entries in found.values() for entry in entries.values()], {}, is_foreign=True)
        for one in made:
            one.entries = found[one.server.name]
            self.by_name[one.server.name] = one
            one.server.on_change(functools.partial(self._follow, one))
            if (listener := one.options.get("on_change")) is not None:
                one.server.on_change(listener)

    async def remove(self, name: str) -> None:
        """Remove a server with its tools and close it. Raises ToolLookupError."""
        one = self._find(name)
        with self._lock:
            self.by_name.pop(name, None)
            here = [entry.name for entry in one.entries.values() if self._catalog.entries.get(entry.name) is entry]
            self._catalog.remove(here)
        await one.server.aclose()

    async def refresh(self, name: str | None) -> dict[str, Changes]:
        """Ask a server, or all, for their tools, and return what has changed. Raises ToolConnectionError for the one.

        A server that is one of several and cannot be reached is left out, with a warning.
        """
        if name is not None:
            return {name: await self._refreshed(self._find(name))}
        asked = list(self.by_name.values())
        told = await asyncio.gather(*(self._refreshed(one) for one in asked), return_exceptions=True)
        for one, changes in zip(asked, told, strict=True):
            if isinstance(changes, BaseException):
                log.warning("The MCP server %r cannot be reached: %s", one.server.name, changes)
        return {
            one.server.name: changes
            for one, changes in zip(asked, told, strict=True)
            if not isinstance(changes, BaseException)
        }

    async def _refreshed(self, one: Import) -> Changes:
        changes = await one.server.arefresh()
        if one.error is not None:
            one.error = None
            await self._follow(one)
        return changes

    async def _follow(self, one: Import, _server: Server | None = None, _changes: Changes | None = None) -> None:
        """Bring a server's tools here up to date."""
        (await in_thread(lambda _: self._bring_up(one))).get()

    def _bring_up(self, one: Import) -> None:
        """Bring a server's tools here up to date. What was removed here stays so, what was bound here stays bound."""
        with self._lock:
            if self.by_name.get(one.server.name) is not one:
                return  # it has been removed in the meantime
            recipes = one.server.recipes(timeout=one.timeout)
            gone = [name for name in one.entries if name not in recipes]
            for name, entry in one.entries.items():
                if name in recipes:
                    self._renew(one, name, entry)
            here = [one.entries[name].name for name in gone if self._catalog.entries.get(one.entries[name].name)]
            self._catalog.remove([name for name in here if self._catalog.entries[name] in one.entries.values()])
            for name in gone:
                del one.entries[name]
            self._add_new(one)

    def _renew(self, one: Import, name: str, entry: Entry) -> None:
        """Let a tool follow its definition. One that has lost a parameter which is bound here is withheld."""
        recipe, body = one.server.recipe(name, timeout=one.timeout)
        old = entry.spec.sealed.recipe
        if recipe.hints == old.hints:
            return
        bound = entry.sealed(self._catalog.bindings, None).bindings.keys() - old.inputs.unschemed
        entry.spec.renew(recipe, body)
        self._catalog.rebound += 1
        if lost := bound - recipe.inputs.parameters.keys():
            one.server.withhold(name)
            log.warning(
                "The MCP tool %r of %r has no parameter %r any more, which is bound here: it is not called until it is "
                "accepted.", name, one.server.name, min(lost),
            )  # fmt: skip

    def _add_new(self, one: Import) -> None:
        """Add what the server has added. A name that is taken here is never overwritten."""
        try:
            found = one.new_entries(self._catalog)
        except (ToolkitError, BindError) as error:
            log.warning("New tools of the MCP server %r were not added: %s", one.server.name, error)
            return
        for name, entry in found.items():
            if entry.name in self._catalog.entries:
                one.clashes[name] = f"there is a tool {entry.name!r} here already"
                log.warning("The new tool %r of %r was not added: %s.", name, one.server.name, one.clashes[name])
                continue
            self._catalog.add([entry], {}, is_foreign=True)
            one.entries[name] = entry

    def _find(self, name: str) -> Import:
        if name not in self.by_name:
            raise ToolLookupError(f"There is no MCP server {name!r} here. {near_misses(name, self.by_name)}")
        return self.by_name[name]


def _imports(server: Any, name: str | None, timeout: float | None, options: ImportOptions) -> list[Import]:
    unknown = options.keys() - ImportOptions.__annotations__.keys()
    if unknown:
        raise ToolkitError(f"Unknown options {sorted(unknown)}; known: {', '.join(ImportOptions.__annotations__)}.")
    of_server = {key: value for key, value in options.items() if key in ServerOptions.__annotations__}
    of_server.pop("on_change", None)  # it hears of changes when they are here
    servers = [server] if isinstance(server, Server) else servers_of(server, name, cast("ServerOptions", of_server))
    prefix = options.get("prefix")
    return [
        Import(
            one,
            options,
            (f"{one.name}_" if len(servers) > 1 else "") if prefix is None else prefix,
            timeout,
        )
        for one in servers
    ]


async def _load(one: Import) -> None:
    try:
        await one.server.arefresh()
    except Exception as error:  # noqa: BLE001  # whatever a server does, the others are not kept from coming in
        one.error = error


def _matches(name: str, wanted: Collection[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in ([wanted] if isinstance(wanted, str) else wanted))


def _is_pattern(name: str) -> bool:
    return any(character in name for character in "*?[")
