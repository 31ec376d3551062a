"""Imports: the tools that a toolkit has from MCP servers, kept in step with what the servers tell."""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
import functools
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from ahvn_tools.binding import open_to_bind
from ahvn_tools.errors import BindError, ToolkitError, ToolLookupError, near_misses
from ahvn_tools.execution.call import Middleware
from ahvn_tools.execution.threads import in_thread
from ahvn_tools.mcp.imported import Server, ServerOptions, servers_of
from ahvn_tools.middleware.postprocess import Postprocess
from ahvn_tools.spec import ToolSpec
from ahvn_tools.toolkit.entry import Entry, EntryOptions, named
from ahvn_tools.toolkit.exclusive import Exclusive

if TYPE_CHECKING:
    from ahvn_tools.mcp.changes import Changes
    from ahvn_tools.recipe import Recipe
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
    away: dict[str, Entry] = field(default_factory=dict)
    """Tools with bindings of their own here that the server no longer has: they get them back if it has them again."""
    error: Exception | None = None
    """Why the server could not be asked, where it is one of several."""
    is_ours: bool = True
    """Whether it was connected here, and so is closed here."""
    is_over: bool = False
    """Whether it has been removed, or was never wanted in the end."""
    forget: list[Callable[[], None]] = field(default_factory=list)
    """Takes back what hears of the server's changes."""

    def takes(self, name: str) -> bool:
        """Tell whether a tool of the server is wanted."""
        include, exclude = self.options.get("include", ()), self.options.get("exclude", ())
        return (not include or _matches(name, include)) and not _matches(name, exclude)

    def name(self, name: str) -> str:
        """Return what a tool of the server is called here."""
        return self.prefix + self.options.get("rename", {}).get(name, name)

    def entry(self, name: str, recipe: Recipe, body: Any, catalog: Catalog) -> Entry:
        """Return an entry for a tool of the server. Raises ToolkitError and BindError."""
        options = self._entry_options(name, open_to_bind(recipe.inputs.parameters, recipe.bindings))
        origin = f"the MCP server {self.server.name!r}"
        return Entry(ToolSpec(recipe, body), self.name(name), origin, options, catalog.keys)

    def new_entries(self, catalog: Catalog) -> dict[str, Entry]:
        """Return entries for the tools that are not here yet. Raises ToolkitError and BindError."""
        recipes = self.server.recipes(timeout=self.timeout)
        return {
            name: self.entry(name, *made, catalog)
            for name, made in recipes.items()
            if name not in self.entries and self.takes(name)
        }

    def follow(self, follower: Callable[[Server, Changes], Any]) -> None:
        """Let these hear of the server's changes: who follows them, then the host."""
        self.forget.append(self.server.on_change(follower))
        if (listener := self.options.get("on_change")) is not None:
            self.forget.append(self.server.on_change(listener))

    def leave(self) -> None:
        """Hear nothing more of the server."""
        self.is_over = True
        for forget in self.forget:
            forget()

    async def aclose(self) -> None:
        """Close the server, unless somebody else has connected it and may still use it."""
        if self.is_ours:
            await self.server.aclose()

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
        self._refuse_taken(made)
        for one in made:
            if one.is_ours:
                one.server.host_state = self._state
        try:
            await asyncio.gather(*map(_load, made))
            failed = [one for one in made if one.error is not None]
            if failed and len(failed) == len(made):
                raise failed[0].error or ToolkitError("No server could be reached.")
            for one in failed:
                log.warning("The MCP server %r cannot be reached: %s", one.server.name, one.error)
            # there may be many tools, and nobody is to wait for them
            (await in_thread(lambda _: self._put(made))).get()
        except BaseException:
            (await in_thread(lambda _: self._take_out(made))).get()  # cancelled, it may have been put in
            await asyncio.gather(*(one.aclose() for one in made), return_exceptions=True)
            raise

    def _refuse_taken(self, made: Sequence[Import]) -> None:
        """Raise ToolkitError for a server whose name is taken, or that whoever added it has given up by now."""
        for one in made:
            if one.is_over or one.server.name in self.by_name:
                raise ToolkitError(f"There is a server {one.server.name!r} already. Give this one a name=….")

    def _put(self, made: Sequence[Import]) -> None:
        """Add all of these or none."""
        with self._lock:
            self._refuse_taken(made)  # another may have come in the meantime
            for one in made:  # whatever changes from now on is brought up to date when this is done
                one.follow(functools.partial(self._follow, one))
            self._put_now(made)

    def _put_now(self, made: Sequence[Import]) -> None:
        found = {one.server.name: {} if one.error else one.new_entries(self._catalog) for one in made}
        if made and not any(one.error for one in made):
            _refuse_unknown(made, made[0].options)
        self._catalog.add([entry for entries in found.values() for entry in entries.values()], {}, is_foreign=True)
        for one in made:
            one.entries = found[one.server.name]
            self.by_name[one.server.name] = one

    async def remove(self, name: str) -> None:
        """Remove a server with its tools, and close it where it was connected here. Raises ToolLookupError."""
        one = self._find(name)
        (await in_thread(lambda _: self._take_out([one]))).get()
        await one.aclose()

    def _take_out(self, made: Sequence[Import]) -> None:
        """Take servers out with their tools, as far as they are in."""
        with self._lock:
            for one in made:
                one.leave()
                if self.by_name.get(one.server.name) is one:
                    del self.by_name[one.server.name]
                for entry in one.entries.values():
                    self._take_away(entry)

    def _take_away(self, entry: Entry) -> bool:
        """Remove a tool, and tell whether it was here: the host may have removed it, or have another of its name."""
        if self._catalog.entries.get(entry.name) is not entry:
            return False
        with contextlib.suppress(ToolLookupError):  # it was removed just now
            self._catalog.remove([entry.name])
        return True

    async def refresh(self, name: str | None) -> dict[str, Changes]:
        """Ask a server, or all, for their tools, and return what has changed. Raises ToolConnectionError for the one.

        A server that is one of several and cannot be reached is left out, with a warning.
        """
        if name is not None:
            return {name: await self._refreshed(self._find(name))}
        asked = list(self.by_name.values())
        told = await asyncio.gather(*(self._refreshed(one) for one in asked), return_exceptions=True)
        for one, changes in zip(asked, told, strict=True):
            if isinstance(changes, BaseException) and not one.is_over:
                log.warning("The tools of the MCP server %r were not brought up to date: %s", one.server.name, changes)
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
            for name, entry in list(one.entries.items()):
                if name in recipes:
                    self._renew(one, name, entry, *recipes[name])
                elif self._take_away(entry):
                    del one.entries[name]
                    if entry.is_bound_here:
                        one.away[name] = entry
            self._add_new(one)

    def _renew(self, one: Import, name: str, entry: Entry, recipe: Recipe, body: Any) -> None:
        """Let a tool follow its definition. One that has lost a parameter which is bound here is withheld."""
        old = entry.spec.sealed.recipe
        if recipe.hints == old.hints:
            return
        bound = entry.sealed(self._catalog.bindings, None).bindings.keys() - old.inputs.unschemed
        lost = bound - recipe.inputs.parameters.keys()
        if lost:
            self._withhold(one, name, f"it has no parameter {min(lost)!r} any more, which is bound here")
        else:
            try:
                entry.take_preset(one.entry(name, recipe, body, self._catalog))
            except (ToolkitError, BindError) as error:
                self._withhold(one, name, f"what was said of it here does not fit it any more. {error}")
        entry.spec.renew(recipe, body)
        self._catalog.rebound += 1

    @staticmethod
    def _withhold(one: Import, name: str, reason: str) -> None:
        one.server.withhold(name)
        log.warning(
            "The MCP tool %r of %r is not called until it is accepted: %s", name, one.server.name, reason.rstrip(".")
        )

    def _add_new(self, one: Import) -> None:
        """Add what the server has added. A name that is taken here is never overwritten."""
        try:
            found = one.new_entries(self._catalog)
        except (ToolkitError, BindError) as error:
            log.warning("New tools of the MCP server %r were not added: %s", one.server.name, error)
            return
        for name, fresh in found.items():
            entry = one.away.pop(name, fresh)
            if entry is not fresh:
                self._renew(one, name, entry, fresh.spec.sealed.recipe, fresh.spec.body)
            try:
                self._catalog.add([entry], {}, is_foreign=True)
            except ToolkitError:
                one.clashes[name] = f"there is a tool {fresh.name!r} here already"
                log.warning("The new tool %r of %r was not added: %s.", name, one.server.name, one.clashes[name])
            else:
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
    preset: Any = options.get("preset", {})
    if not (isinstance(preset, Mapping) and all(isinstance(given, Mapping) for given in preset.values())):
        raise ToolkitError('`preset` of a server says it by tool: {"tool": {"parameter": value}}.')
    if not ((listener := options.get("on_change")) is None or callable(listener)):
        raise ToolkitError(f"`on_change` of a server is a function, not a {type(listener).__name__}.")
    for new_name in (*options.get("rename", {}).values(), *([] if name is None else [name])):
        named("new name of a server or of one of its tools", new_name)
    is_ours = not isinstance(server, Server)
    if not is_ours and (of_server or name is not None):
        said = sorted(of_server) + (["name"] if name is not None else [])
        raise ToolkitError(f"The server {server.name!r} is connected already: give {said} to `mcp.connect`.")
    servers = servers_of(server, name, cast("ServerOptions", of_server)) if is_ours else [server]
    prefix = options.get("prefix")
    return [
        Import(
            one,
            options,
            (f"{one.name}_" if len(servers) > 1 else "") if prefix is None else prefix,
            timeout,
            is_ours=is_ours,
        )
        for one in servers
    ]


def _refuse_unknown(made: Sequence[Import], options: ImportOptions) -> None:
    """Raise ToolLookupError for names in the options that none of the servers has."""
    known = {name for one in made for name in (*one.server.tools, *one.server.refused)}
    idempotent = options.get("idempotent", ())
    wanted = {*options.get("rename", {}), *options.get("preset", {}).keys() - {"*"}}
    for patterns in (options.get("include", ()), options.get("exclude", ())):
        wanted.update(name for name in _listed(patterns) if not _is_pattern(name))
    wanted.update(() if isinstance(idempotent, bool) else _listed(idempotent))
    for name in sorted(wanted - known):
        where = " or ".join(repr(one.server.name) for one in made)
        raise ToolLookupError(f"The MCP server {where} has no tool {name!r}. {near_misses(name, known)}")


async def _load(one: Import) -> None:
    try:
        await one.server.arefresh()
    except Exception as error:  # noqa: BLE001  # whatever a server does, the others are not kept from coming in
        one.error = error


def _matches(name: str, wanted: Collection[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in _listed(wanted))


def _listed(names: Collection[str]) -> Collection[str]:
    return [names] if isinstance(names, str) else names


def _is_pattern(name: str) -> bool:
    return any(character in name for character in "*?[")
