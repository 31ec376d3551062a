"""A toolkit that was loaded from a manifest: that manifest, with what has changed since."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

from ahvn_tools.json_types import JsonObject
from ahvn_tools.manifest.dumping.built_toolkit import needs_definitions, to_sources
from ahvn_tools.manifest.dumping.middleware import to_items
from ahvn_tools.manifest.dumping.model_tools import is_model_tool, to_model_tools
from ahvn_tools.manifest.dumping.problems import Problems, UndumpableError
from ahvn_tools.manifest.dumping.selections import to_agent, to_group, to_toolset
from ahvn_tools.manifest.dumping.servers import to_sources as to_server_sources
from ahvn_tools.manifest.dumping.settings import to_binds
from ahvn_tools.manifest.dumping.tools import to_key
from ahvn_tools.manifest.dumping.variables import escape
from ahvn_tools.manifest.loaded_parts import LoadedParts, LoadedTool
from ahvn_tools.manifest.manifest_file import LoadedManifest
from ahvn_tools.toolkit import Toolkit
from ahvn_tools.toolkit.entry import Entry


def to_data(toolkit: Toolkit, manifest: LoadedManifest, problems: Problems) -> JsonObject:
    """Return the data of its manifest. What cannot be written is added to the problems."""
    with problems.of(f"the toolkit {toolkit.name!r}"):
        if manifest.audience is not None:
            raise UndumpableError(f"it was loaded for the audience {manifest.audience!r}: load and dump all of it")
    data = copy.deepcopy(manifest.written if manifest.profile is None else manifest.data)
    _Changes(toolkit, manifest, data, problems).apply()
    return {key: value for key, value in data.items() if value not in ({}, []) or manifest.written.get(key) == value}


@dataclass(frozen=True)
class _Changes:
    toolkit: Toolkit
    manifest: LoadedManifest
    data: JsonObject
    problems: Problems

    @property
    def _loaded(self) -> LoadedParts:
        return self.manifest.parts

    def apply(self) -> None:
        """Write into the data what has changed since the toolkit was loaded."""
        if self.toolkit.name != self._loaded.name:
            self.data["name"] = escape(self.toolkit.name)
        self._tools()
        self._groups()
        self._toolsets()
        self._binds()
        self._middleware()
        store = self.toolkit._view.store  # noqa: SLF001  # of this package
        if store.max_concurrency != self._loaded.max_concurrency:
            self.data["max_concurrency"] = store.max_concurrency

    def _tools(self) -> None:
        store = self.toolkit._view.store  # noqa: SLF001  # of this package
        current = list(store.entries.values())
        added = [entry for entry in current if entry not in self._loaded.tools]
        self._add(added)
        names = {entry.name for entry in current}
        for entry, loaded in self._loaded.tools.items():
            if store.entries.get(entry.name) is entry:
                with self.problems.of(f"the tool {entry.name!r}"):
                    self._change(entry, loaded)
            elif entry.name not in names and entry.server_name not in self._removed_servers():
                self._options(entry.name)["enabled"] = False

    def _removed_servers(self) -> frozenset[str]:
        return self._loaded.servers - self.toolkit._view.store.imported_servers.keys()  # noqa: SLF001  # as above

    def _add(self, added: list[Entry]) -> None:
        store, folder = self.toolkit._view.store, self.manifest.file.parent  # noqa: SLF001  # of this package
        for name in sorted(self._removed_servers()):
            with self.problems.of(f"the MCP server {name!r}"):
                raise UndumpableError("it was removed here: remove its source from the manifest")
        servers = [one for name, one in store.imported_servers.items() if name not in self._loaded.servers]
        own = [entry for entry in added if entry.server_name is None or entry.server_name not in self._loaded.servers]
        sources, options = to_sources(store, own, (), folder, self.problems)
        replaced = {entry.name for entry in self._loaded.tools}
        for source, entry in zip(sources, own, strict=False):
            if entry.name in replaced:
                source["on_duplicate"] = "replace"
        sources += to_server_sources(servers, folder, self.problems).values()
        if sources:
            self.data["sources"] = [*self.data.get("sources", ()), *sources]
        for name, changed in options.items():
            self._options(name).update(changed)
        if any(map(is_model_tool, added)):
            self.data.update(to_model_tools(store, self.problems))

    def _change(self, entry: Entry, loaded: LoadedTool) -> None:
        """Write the tags and bindings of a tool that have changed. Raises UndumpableError."""
        if entry.tags != loaded.tags:
            _change_list(self._options(entry.name), entry.tags - loaded.tags, loaded.tags - entry.tags)
        current, before = entry.own_bindings, loaded.bindings
        for name in before.keys() - current.keys():
            if self._options(entry.name).get("binds", {}).pop(name, None) is None:
                raise UndumpableError(f"{name!r} was unbound here: remove the binding from the manifest")
        for name, binding in current.items():
            if before.get(name) is not binding:
                self._options(entry.name).setdefault("binds", {})[name] = escape(to_key(binding))

    def _options(self, name: str) -> JsonObject:
        """Return the options of a single tool, to be changed."""
        tools: JsonObject = self.data.setdefault("tools", {})
        options: JsonObject = tools.setdefault(name, {})
        return options

    def _groups(self) -> None:
        view = self.toolkit._view  # noqa: SLF001  # of this package
        current = view.groups()
        written = _without_removed(self.data, "groups", self._loaded.groups, current)
        for name, group in current.items() if needs_definitions(current) else ():
            if group != self._loaded.groups.get(name):
                written[name] = escape(to_group(group))
        _set(self.data, "groups", written)

    def _toolsets(self) -> None:
        current = self.toolkit._view.store.toolsets  # noqa: SLF001  # of this package
        written = _without_removed(self.data, "toolsets", self._loaded.toolsets, current)
        agents = _without_removed(self.data, "agents", self._loaded.toolsets, current)
        for name, toolset in current.items():
            if toolset == self._loaded.toolsets.get(name):
                continue
            with self.problems.of(f"the toolset {name!r}"):
                agent = to_agent(toolset) if name in agents else None
                agents.pop(name, None)
                if agent is None:
                    written[name] = escape(to_toolset(toolset))
                else:
                    agents[name] = escape(agent)
        _set(self.data, "toolsets", written)
        _set(self.data, "agents", agents)

    def _binds(self) -> None:
        current = self.toolkit._view.store.bindings  # noqa: SLF001  # of this package
        written = _without_removed(self.data, "binds", self._loaded.bindings, current)
        changed = {name: binding for name, binding in current.items() if self._loaded.bindings.get(name) is not binding}
        _set(self.data, "binds", {**written, **escape(to_binds(changed, self.problems))})

    def _middleware(self) -> None:
        current, loaded = self.toolkit._view.store.middleware, self._loaded.middleware  # noqa: SLF001  # as above
        if current == loaded:
            return
        written = dict(zip(map(id, loaded), self.data.get("middleware", ()), strict=True))
        items: list[Any] = []
        with self.problems.of("the toolkit's middleware"):
            for layer in current:
                items += [written[id(layer)]] if id(layer) in written else to_items([layer], self.manifest.file.parent)
        self.data["middleware"] = items


def _without_removed(
    data: JsonObject, key: str, loaded: Mapping[str, Any], current: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what the manifest has under a key, without what was removed from the toolkit."""
    removed = loaded.keys() - current.keys()
    return {name: value for name, value in (data.get(key) or {}).items() if name not in removed}


def _set(data: MutableMapping[str, Any], key: str, value: Any) -> None:
    if value or key in data:
        data[key] = value


def _change_list(options: JsonObject, added: frozenset[str], removed: frozenset[str]) -> None:
    """Change the tags of a tool. Raises UndumpableError for one that is written elsewhere."""
    written = options.get("tags", [])
    tags = [written] if isinstance(written, str) else list(written)
    if lost := sorted(removed.difference(tags)):
        raise UndumpableError(f"its tag {lost[0]!r} was removed here: remove it where the manifest or the tool has it")
    options["tags"] = [*(tag for tag in tags if tag not in removed), *sorted(added)]
