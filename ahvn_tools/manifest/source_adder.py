"""SourceAdder: reads one source of a manifest, and adds its tools to a toolkit."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ahvn_tools.errors import BindError, SourceError, ToolLookupError, ToolSpecError, near_misses
from ahvn_tools.loading.contents import Contents, ServerSource, add_load_errors, skipping
from ahvn_tools.loading.kinds import read_source
from ahvn_tools.manifest import source_model
from ahvn_tools.manifest.build import Build, NestedError
from ahvn_tools.manifest.document import Path_
from ahvn_tools.manifest.source_model import AnySource, FunctionOptions, OpenAPISource
from ahvn_tools.manifest.tool_options import copied_options
from ahvn_tools.mcp.client.mcp_config import ServerEntry
from ahvn_tools.mcp.trust.limits import Budgets, Limits
from ahvn_tools.registry import ToolRegistry
from ahvn_tools.spec import ToolSpec
from ahvn_tools.toolkit import Toolkit
from ahvn_tools.toolkit.entry_options import SingleToolOptions, is_pattern, options_of_tool

_SAME = (
    "base_url", "variables", "operations", "methods", "deprecated", "responses", "external_files", "timeout",
)  # fmt: skip
"""Options with the same name in a manifest and in `ToolSpec.from_openapi`."""


def read_http(build: Build, index: int) -> Contents:
    """Return the tool of an HTTP request. Raises SourceError."""
    from ahvn_tools.loading.definitions import to_definition, to_spec

    written = build.document.data["sources"][index]["http"]
    yaml, file = build.document.yaml, build.document.file
    if yaml is None or file is None or "name" not in written:
        raise ToolSpecError("`http` has no `name`: it is that of the tool.")
    try:
        definition = to_definition(file, replace(yaml, value=written), "http")
        spec = to_spec(definition, build.read_options)
    except SourceError as error:
        if error.line is None:
            raise ToolSpecError(str(error).removeprefix(f"{yaml.name}: ")) from None
        raise NestedError(build.resolved.redact(str(error)), file=error.file, line=error.line) from None
    return Contents(name=spec.name, tools=(spec,))


def read_openapi(build: Build, index: int, source: OpenAPISource) -> Contents:
    """Return the tools of an OpenAPI document. Raises SourceError."""
    from ahvn_tools.loading import openapi

    choices: Any = {name: value for name, value in source.fields_set(*_SAME).items() if value is not None}
    if source.http_options:
        choices["http"] = source.http_options
    if source.operation_tags:
        choices["tags"] = source.operation_tags
    written = build.document.data["sources"][index]
    choices |= {name: written[name] for name in ("auth", "headers") if getattr(source, name)}
    build.read_options.require_readable(source.openapi)
    return openapi.read(source.openapi, build.read_options, choices)


_CREDENTIALS = ("auth", "env")


def to_server_source(build: Build, index: int, source: source_model.ServerSource) -> Contents:
    """Return the servers of a source, with the options of their connections. Raises SourceError."""
    contents = read_source(
        "server", _to_target(source, build, index), replace(build.read_options, inputs=source.inputs)
    )
    options: dict[str, Any] = source.fields_set(
        "timeout", "idempotent", "tasks", "binds", "mode", "idle_timeout", "resource_tool", "prompts", *_CREDENTIALS
    )
    for key in ("stderr", "pin"):
        if (file := getattr(source, key)) is not None:
            options[key] = build.read_options.to_output(file)
    for variable in source.env:
        build.read_options.trust.require_variable(variable)
    for key, kind in (("limits", Limits), ("budgets", Budgets)):
        if values := getattr(source, key):
            with build.at("sources", index, key):
                options[key] = _to_limits(kind, values)
    is_file = isinstance(source.server, str) and source.server.endswith(".json")
    is_secret = (
        isinstance(source.server, str) and not is_file and build.resolved.contains_secret(("sources", index, "server"))
    )
    servers = tuple(
        ServerSource(
            server=in_folder(server.server, build.document.folder),
            name=source.name or (server.name if not is_secret else f"server_{index + 1}"),
            options={**server.options, **options},
        )
        for server in contents.servers
    )
    return Contents(name=contents.name, servers=servers, errors=contents.errors)


def _to_target(source: source_model.ServerSource, build: Build, index: int) -> Any:
    """Return what the reader of servers takes; one entry of an mcp.json becomes one with a name.

    A name is shown, so it is not made from a text with a variable.
    """
    server = source.server
    if isinstance(server, list):
        server = {"command": server[0], "args": server[1:]} if server else {}
    if isinstance(server, Mapping) and ("command" in server or "url" in server):
        is_secret = build.resolved.contains_secret(("sources", index, "server"))
        default = f"server_{index + 1}" if is_secret else _entry_name(server)
        return {"mcpServers": {source.name or default: server}}
    return server


def _entry_name(entry: Mapping[str, Any]) -> str:
    command, url = entry.get("command"), entry.get("url")
    host = urlsplit(url).hostname if isinstance(url, str) else None
    return Path(command).stem if isinstance(command, str) and command else host or "server"


def in_folder(server: Any, folder: Path) -> Any:
    """Return the server of a command, which starts in a folder; other servers unchanged."""
    return {"": ServerEntry(command=tuple(server), cwd=str(folder))} if isinstance(server, list) else server


def _to_limits(kind: type[Any], values: Mapping[str, float]) -> Any:
    known = {field.name: field for field in fields(kind)}
    for name in values:
        if name not in known:
            raise ToolSpecError(f"there is no limit {name!r}. {near_misses(name, known)}")
    return kind(**{name: int(value) if known[name].type == "int" else value for name, value in values.items()})


_EVERY_TOOL = "*"


@dataclass(frozen=True, kw_only=True)
class SourceAdder:
    """One source of a manifest, and the toolkit that its tools are added to."""

    kit: Toolkit
    build: Build
    index: int
    source: AnySource
    single_options: Mapping[str, SingleToolOptions]

    def add(self, contents: Contents) -> None:
        """Add what the source contains. Raises ToolSpecError."""
        tools = _to_tools(contents)
        if contents.toolkit is not None:
            self._add_groups(contents.toolkit)
        if tools or not contents.servers:
            self._add_tools(tools)
        for server in contents.servers:
            self._add_server(server)

    def _add_groups(self, kit: Toolkit) -> None:
        """Define the groups that the source's toolkit defines and the manifest does not."""
        for name, group in kit._view.groups().items():  # noqa: SLF001  # of another package of this project
            if group.is_defined and name not in self.kit.groups:
                self.kit.add_group(name, group.description, active=group.is_active, notes=group.notes)

    def _add_tools(self, tools: Sequence[ToolSpec]) -> None:
        self._refuse_unknown_names([tool.name for tool in tools])
        included = [tool for tool in tools if self._is_included(tool.name)]
        self._refuse_unknown_parameters({name for tool in included for name in self._parameters(tool)})
        options = copied_options(self.build, self.source, self._path)
        for tool in included:
            name, parameters = self.source.prefix + self.source.rename.get(tool.name, tool.name), self._parameters(tool)
            self.build.parameters.setdefault(name, set()).update(parameters)
            single = options_of_tool(self.single_options, name, parameters)
            merged: Any = self._merge(options, tool.name, parameters, single)
            if merged.pop("enabled", True) and self.is_for_audience(merged.get("audience", ())):
                self._add_tool(tool, name, merged)

    def _add_tool(self, tool: ToolSpec, name: str, options: Any) -> None:
        try:
            self.kit.add(tool, rename=name, **options)
        except ToolSpecError:
            wrong = find_wrong_option(tool, options, self.kit)
            path = self._path if wrong is None else self._option_path(tool.name, name, *wrong)
            with self.build.at(*path):
                raise

    def _option_path(self, own_name: str, name: str, option: str, key: str | None) -> Path_:
        """Return where the manifest has an option of a tool; `key` is a key in the option."""
        keys = () if key is None else (key,)
        for pattern in reversed(list(self.single_options)):
            single: Mapping[str, Any] = self.single_options[pattern]
            is_meant = option in single and fnmatch.fnmatchcase(name, pattern)
            if is_meant and (key is None or key in single[option]):
                tool = self.build.manifest.tools.get(pattern)
                is_in_tools = tool is not None and (option != "preset" or key in tool.preset)
                return ("tools", pattern, option, *keys) if is_in_tools else ("presets", pattern, *keys)
        if option == "description":
            return (*self._path, "describe", own_name)
        if option == "arguments":
            return (*self._path, "arguments", own_name)
        if option != "preset":
            return (*self._path, option, *keys)
        is_own = key in self.source.presets.get(own_name, {})
        return (*self._path, "presets", own_name if is_own else _EVERY_TOOL, *keys)

    def _merge(
        self, options: Mapping[str, Any], name: str, parameters: Collection[str], single: SingleToolOptions
    ) -> dict[str, Any]:
        """Return the options of one tool: those of the source, then its own ones in the source, then the single one."""
        source = self.source
        merged: dict[str, Any] = {key: value for key, value in options.items() if key not in ("arguments", "binds")}
        if name in source.describe:
            merged["description"] = source.describe[name]
        binds = {key: value for key, value in options.get("binds", {}).items() if key in parameters}
        arguments = {**source.arguments.get(name, {}), **single.get("arguments", {})}
        preset = {**self._preset(name, parameters), **single.get("preset", {})}
        merged |= {**single, "binds": {**binds, **single.get("binds", {})}, "preset": preset}
        merged["tags"] = {*options.get("tags", ()), *single.get("tags", ())}
        return {**merged, **({"arguments": {name: arguments}} if arguments else {})}

    def _preset(self, name: str, parameters: Collection[str]) -> dict[str, Any]:
        presets = self.build.resolved.seal(self.source.presets, (*self._path, "presets"))
        for_all = presets.get(_EVERY_TOOL, {})
        return {**{key: value for key, value in for_all.items() if key in parameters}, **presets.get(name, {})}

    def _parameters(self, tool: ToolSpec) -> list[str]:
        """Return the parameters of a tool, with the names that they have here."""
        changes = self.source.arguments.get(tool.name, {})
        return [changes.get(key, {}).get("name", key) for key in tool.compiled.template.inputs.parameters]

    def _add_server(self, server: ServerSource) -> None:
        source: Any = self.source
        unfit = [name for name in FunctionOptions.model_fields if name in source.model_fields_set]
        if isinstance(getattr(source, "binds", None), Mapping) and source.binds:
            unfit.append("binds")
        for name in unfit:
            with self.build.at(*self._path, name):
                raise ToolSpecError("this source is an MCP server, and this is no option of one: see `server:`.")
        if self.build.problems:
            return  # the manifest is wrong: no server is started for it
        options = {**server.options, **copied_options(self.build, source, self._path)}
        options |= source.fields_set("include", "exclude", "prefix", "rename", "describe")
        if source.presets:
            options["preset"] = self.build.resolved.seal(source.presets, (*self._path, "presets"))
        options["tools"] = self._tools_for_audience(options.pop("audience", None), options)
        target = in_folder(server.server, self.build.document.folder)
        with skipping(server.file, lambda error: add_load_errors(self.kit, [error])):
            self.kit.add_mcp(target, name=self._server_name(server), **options)

    def _server_name(self, server: ServerSource) -> str | None:
        """Return the name of a server; a name is shown, so it is not made from a text with a variable."""
        locations = {self._path, (*self._path, "source"), (*self._path, "path")}
        is_secret = not locations.isdisjoint(self.build.resolved.secret_paths) and not isinstance(
            server.server, Mapping
        )
        return f"server_{self.index + 1}" if is_secret else server.name

    def _tools_for_audience(self, audience: Collection[str] | None, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of single tools, without the tools that are not for the audience of this toolkit."""
        if audience is not None:
            options["audience"] = audience
        tools: dict[str, Any] = {}
        if not self.is_for_audience(audience or ()):
            tools[_EVERY_TOOL] = {"enabled": False}
        for pattern, single in self.single_options.items():
            own: dict[str, Any] = {**single}
            if "audience" in single:
                own["enabled"] = single.get("enabled", True) and self.is_for_audience(single["audience"])
            tools[pattern] = {**tools.get(pattern, {}), **own}
        return tools

    def is_for_audience(self, audience: Iterable[str]) -> bool:
        """Return whether tools of these audiences are in this toolkit."""
        own, audience = self.build.audience, frozenset(audience)
        return own is None or not audience or own in audience

    @property
    def _path(self) -> tuple[str | int, ...]:
        return ("sources", self.index)

    def _is_included(self, name: str) -> bool:
        include, exclude = self.source.include, self.source.exclude
        return (not include or _matches(name, include)) and not _matches(name, exclude)

    def _refuse_unknown_names(self, tools: Collection[str]) -> None:
        """Make problems of names and patterns that fit no tool of the source."""
        source = self.source
        named: list[tuple[str, Iterable[str]]] = [
            ("include", source.include),
            ("exclude", source.exclude),
            ("rename", source.rename),
            ("describe", source.describe),
            ("arguments", source.arguments),
            ("presets", [name for name in source.presets if name != _EVERY_TOOL]),
        ]
        for key, names in named:
            for name in names:
                fits = _matches_any(name, tools) if key in {"include", "exclude"} else name in tools
                if not fits:
                    with self.build.at(*self._path, key):
                        what = "matches no tool" if is_pattern(name) else "is no tool"
                        raise ToolLookupError(f"{name!r} {what} of this source. {near_misses(name, tools)}")

    def _refuse_unknown_parameters(self, known: Collection[str]) -> None:
        """Make problems of parameters that no tool of the source has."""
        binds: Any = getattr(self.source, "binds", {})
        for key, names in (("binds", binds), ("presets", self.source.presets.get(_EVERY_TOOL, {}))):
            for name in names:
                if name not in known:
                    with self.build.at(*self._path, key, *([] if key == "binds" else [_EVERY_TOOL]), name):
                        raise BindError(f"no tool of this source has a parameter {name!r}. {near_misses(name, known)}")


def _to_tools(contents: Contents) -> list[ToolSpec]:
    """Return the tools of a source, one by one: each may have its own options."""
    if contents.toolkit is not None:
        return list(contents.toolkit)
    tools: list[ToolSpec] = []
    for thing in contents.tools:
        if isinstance(thing, ToolSpec):
            tools.append(thing)
        elif isinstance(thing, ToolRegistry):
            tools.extend(thing.to_toolspecs().values())
        else:
            tools.extend(Toolkit("source").add(thing))
    return tools


def find_wrong_option(tool: ToolSpec, options: Mapping[str, Any], kit: Toolkit) -> tuple[str, str | None] | None:
    """Return the first option with which a tool cannot be added to a toolkit with these groups, and the key in it."""
    trial: dict[str, Any] = {}
    parts: list[tuple[str, str | None, Any]] = []
    for option in sorted(options, key=lambda option: option != "arguments"):  # others use the new names
        value = options[option]
        is_mapping = option in {"preset", "binds"}
        parts += [(option, key, {key: item}) for key, item in value.items()] if is_mapping else [(option, None, value)]
    for option, key, part in parts:
        trial[option] = part if key is None else {**trial.get(option, {}), **part}
        try:
            groups = kit._view.groups().values()  # noqa: SLF001  # of another package of this project
            copy = Toolkit("trial")
            for name in (group.name for group in groups if group.is_defined):
                copy.add_group(name)
            copy.add(tool, **trial)
        except ToolSpecError:
            return option, key
    return None


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _matches_any(pattern: str, names: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for name in names)
