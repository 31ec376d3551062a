"""Builder: makes the toolkit of a manifest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ahvn_tools.code_mode.limits import CodeLimits
from ahvn_tools.errors import SourceError, ToolkitError, ToolSpecError
from ahvn_tools.loading import reader
from ahvn_tools.loading.contents import Contents
from ahvn_tools.loading.environment import VARIABLE
from ahvn_tools.loading.kinds import classify
from ahvn_tools.loading.python_modules import split_location
from ahvn_tools.manifest import http_options, source_model, tool_options
from ahvn_tools.manifest.build import Build, NestedError
from ahvn_tools.manifest.document import Problem
from ahvn_tools.manifest.load_errors import add_load_errors
from ahvn_tools.manifest.server_options import to_server_source
from ahvn_tools.manifest.server_ownership import adopt_servers, close_servers
from ahvn_tools.manifest.source_adder import SourceAdder
from ahvn_tools.manifest.toolset_adder import ToolsetAdder
from ahvn_tools.manifest.unknown_tools import refuse_unknown_tools
from ahvn_tools.secret_key import SecretKey
from ahvn_tools.toolkit import Toolkit
from ahvn_tools.toolkit.entry_options import validate_callable

_TOOLKIT_OPTIONS = (
    "timeout", "middleware_timeout", "max_concurrency", "max_background", "mask_errors", "strict", "output",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Builder:
    """Makes the toolkit of a manifest, all of it or none."""

    build: Build
    load_nested: Any
    """Returns the toolkit of another manifest: `(location, build, profile)`."""

    def toolkit(self, default_name: str) -> Toolkit:
        """Return the toolkit. Raises SourceError about all that is wrong; no server stays connected then."""
        kit = self._new_toolkit(default_name)
        try:
            self._fill(kit)
        except BaseException:
            for loaded in (kit, *self.build.nested):
                close_servers(loaded)
            raise
        for other in (*self.build.nested, *self.build.others):
            adopt_servers(kit, other)
        return kit

    def _fill(self, kit: Toolkit) -> None:
        build, manifest = self.build, self.build.manifest
        parts = (
            manifest.groups,
            manifest.middleware,
            manifest.binds,
            manifest.sources,
            manifest.tools,
            manifest.presets,
        )
        build.read_options.budget.spend_parts(sum(map(len, parts)))
        for name, group in manifest.groups.items():
            with build.at("groups", name):
                kit.add_group(name, group.description, active=group.active, notes=group.notes)
        for layer in build.middleware(manifest.middleware, "middleware"):
            with build.at("middleware"):
                kit.use(layer)
        self._bind(kit)
        single_options = tool_options.single_tool_options(build)
        build.raise_problems()
        for index, source in enumerate(manifest.sources):
            with build.at("sources", index):
                adder = SourceAdder(kit=kit, build=build, index=index, source=source, single_options=single_options)
                adder.add(self._read(index, source, kit))
        build.raise_problems()
        refuse_unknown_tools(build, kit)
        ToolsetAdder(kit=kit, build=build).add()
        self._add_model_tools(kit)
        build.raise_problems()

    def _new_toolkit(self, default_name: str) -> Toolkit:
        build, manifest = self.build, self.build.manifest
        options = manifest.fields_set(*(name for name in _TOOLKIT_OPTIONS if getattr(manifest, name) is not None))
        roots = None
        with build.at("roots"):
            roots = self._roots(manifest.roots)
        options |= self._approval()
        build.raise_problems()
        try:
            return Toolkit(
                manifest.name or default_name,
                roots=roots,
                executor=build.read_options.executor,
                on_duplicate=manifest.on_duplicate,
                **options,
            )
        except ToolSpecError as error:
            build.problems.append(Problem(path=(), message=build.resolved.redact(str(error))))
            raise build.document.error(build.problems) from None

    def _roots(self, roots: Sequence[str] | None) -> tuple[Path, ...] | None:
        """Return the roots that a manifest names, or those that the host passes. Raises SourceError."""
        return self.build.read_options.roots if roots is None else self.build.read_options.to_roots(roots)

    def _approval(self) -> dict[str, Any]:
        build, approval = self.build, self.build.manifest.approval
        options: dict[str, Any] = {}
        if approval is None:
            return options
        if approval.approver is not None:
            with build.at("approval", "approver"):
                options["approver"] = build.member(approval.approver)
                validate_callable("An approver", "a function of the request", options["approver"])
        if approval.secret_key is not None:
            with build.at("approval", "secret_key"):
                variable = VARIABLE.fullmatch(build.document.data["approval"]["secret_key"])
                if variable is None or variable["name"] is None or variable["default"] is not None:
                    raise ToolSpecError(
                        "a key is no part of a file, nor its default: write `${APPROVAL_KEY}`, and set that variable."
                    )
                SecretKey.create(approval.secret_key)  # it names the key, before the toolkit is made
                options["secret_key"] = approval.secret_key
        if approval.store is not None:
            with build.at("approval", "store"):
                options["approval_store"] = build.read_options.to_output(approval.store)
        if "expiry" in approval.model_fields_set:
            options["approval_expiry"] = approval.expiry
        return options

    def _bind(self, kit: Toolkit) -> None:
        for name, bind in self.build.manifest.binds.items():
            with self.build.at("binds", name):
                is_secret = bind.secret or self.build.resolved.contains_secret(("binds", name, "default"))
                kit.bind(name, bind.key, **bind.fields_set("default"), secret=is_secret)

    def _read(self, index: int, source: source_model.AnySource, kit: Toolkit) -> Contents:
        if isinstance(source, source_model.ServerSource):
            return to_server_source(self.build, index, source)
        kind, location = _locate(source, self.build)
        if kind == "manifest":
            return self._read_nested(location, source, kit)
        if kind == "builtins":
            return self._read_builtins(source)
        if isinstance(source, source_model.HTTPSource):
            return http_options.read_http(self.build, index)
        if isinstance(source, source_model.OpenAPISource):
            contents = http_options.read_openapi(self.build, index, source)
        else:
            contents = reader.read(kind, location, self.build.read_options)
        add_load_errors(kit, contents.errors)
        self.build.others.extend(thing for thing in (contents.toolkit, *contents.tools) if isinstance(thing, Toolkit))
        return contents

    def _read_builtins(self, source: Any) -> Contents:
        from ahvn_tools.manifest.builtins_source import read_builtins  # slow, and few manifests have it

        folders = self._roots(getattr(source, "roots", None) or self.build.manifest.roots) or ()
        trust = self.build.read_options.trust
        if isinstance(source, source_model.TextSource):
            return read_builtins("standard", folders, trust)
        options = {name: getattr(source, name) for name in ("read_only", "approve", "sandbox", "network")}
        return read_builtins(source.builtins, folders, trust, **options)

    def _read_nested(self, location: str, source: Any, kit: Toolkit) -> Contents:
        try:
            nested = self.load_nested(location, self.build, getattr(source, "profile", None))
        except SourceError as error:
            if error.line is None:  # no part of that file is wrong: it is missing, or it leads to itself
                raise
            raise NestedError(self.build.resolved.redact(str(error)), file=error.file, line=error.line) from None
        self.build.nested.append(nested)
        add_load_errors(kit, nested.load_errors)
        return Contents(name=nested.name, toolkit=nested)

    def _add_model_tools(self, kit: Toolkit) -> None:
        manifest = self.build.manifest
        if manifest.groups_tool is not None:
            with self.build.at("groups_tool"):
                tool = kit.groups_tool(**_texts(manifest.groups_tool))
                _refuse_taken_name(kit, tool.name)
                kit.add(tool)
        if (search := manifest.search) is not None:
            with self.build.at("search"):
                texts: Any = {key: _texts(getattr(search, key)) for key in ("search_tool", "call_tool")}
                for key, default in (("search_tool", "search_tools"), ("call_tool", "call_tool")):
                    _refuse_taken_name(kit, texts[key].get("name", default))
                kit.add_search(search.core, **texts)
        if (code := manifest.code_mode) is not None:
            with self.build.at("code_mode"):
                if search is not None:
                    raise ToolkitError("a toolkit has `search` or `code_mode`, not both.")
                tools: Any = {key: _texts(getattr(code, key)) for key in ("search_tool", "describe_tool", "run_tool")}
                limits = CodeLimits(**code.limits.model_dump(exclude_none=True))
                kit.add_code_mode(code.core, limits=limits, inline=code.inline, **tools)


def _locate(source: Any, build: Build) -> tuple[Any, Any]:
    """Return the kind of a source and its location. Raises SourceError."""
    key = next(key for key in source_model.LOCATIONS if hasattr(source, key))
    if not getattr(source, key):
        raise SourceError(f"`{key}` is empty.")
    if isinstance(source, source_model.TextSource):
        build.read_options.require_readable(source.source)
        return classify(source.source, build.read_options.folder)
    if isinstance(source, source_model.PathSource):
        file = split_location(source.path)[0]
        if not build.read_options.resolve(file).exists():
            raise SourceError(f"There is no file or folder {file!r}.", file=file)
        build.read_options.require_readable(file)
        return classify(Path(source.path), build.read_options.folder)
    return key, getattr(source, key)


def _refuse_taken_name(kit: Toolkit, name: str) -> None:
    """Raise ToolkitError for the name of a tool of the toolkit itself that a source has: models need both."""
    if any(tool.name == name for tool in kit):
        raise ToolkitError(f"there is a tool {name!r} already: give one of them another `name`.")


def _texts(tool: Any) -> Any:
    return {key: value for key, value in tool.fields_set("name", "title", "description").items() if value is not None}
