"""Builder: reads a manifest, and makes its toolkit, all of it or none."""

from __future__ import annotations

import fnmatch
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ahvn_tools.code_mode.limits import CodeLimits
from ahvn_tools.errors import (
    BindError,
    SourceError,
    ToolkitError,
    ToolLookupError,
    ToolSpecError,
    near_misses,
)
from ahvn_tools.loading.contents import Contents, add_load_errors, adopt_servers, close_servers
from ahvn_tools.loading.environment import VARIABLE
from ahvn_tools.loading.kinds import classify, read_source
from ahvn_tools.loading.options import ReadOptions
from ahvn_tools.loading.python_modules import split_location
from ahvn_tools.manifest import source_adder, source_model, tool_options
from ahvn_tools.manifest.build import Build, NestedError
from ahvn_tools.manifest.document import (
    Document,
    Path_,
    Problem,
    merge_part,
    read_document,
    resolve_variables,
    to_text,
    unknown_part,
)
from ahvn_tools.manifest.source_adder import SourceAdder, to_server_source
from ahvn_tools.manifest.toolset_files import add_toolset_files, agent_selection, find_files, unknown_tools
from ahvn_tools.manifest.validation import validate, validate_written
from ahvn_tools.schema.dialects.finding import Finding
from ahvn_tools.secret_key import SecretKey
from ahvn_tools.toolkit import Toolkit
from ahvn_tools.toolkit.entry_options import is_pattern, validate_callable

log = logging.getLogger(__name__)

PROFILE_VARIABLE: Final = "AHVN_TOOLS_PROFILE"
"""The environment variable that names the profile where `load` does not."""

MAX_DEPTH: Final = 20
"""How many manifests may lead to another one."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which parts of a manifest are used."""

    profile: str | None = None
    audience: str | None = None
    name: str | None = None
    """The name of the toolkit, instead of what the manifest says."""
    is_profile_required: bool = True
    """Whether the manifest must have the profile: an inherited one is used where there is one of its name."""


def load_manifest(
    location: str, options: ReadOptions, choice: Choice, *, shown: str | None = None, ancestors: tuple[Path, ...] = ()
) -> Toolkit:
    """Return the toolkit of a manifest. Raises SourceError, about all that is wrong, with a line for each.

    `shown` is how errors name the file; `ancestors` are the manifests that lead to it.
    """
    options.require_readable(location)
    file = options.resolve(location).resolve()
    shown = location if shown is None else shown
    if file in ancestors:
        chain = " -> ".join(path.name for path in (*ancestors[ancestors.index(file) :], file))
        raise SourceError(f"{shown}: the manifest includes itself: {chain}.", file=shown)
    if len(ancestors) >= MAX_DEPTH:
        raise SourceError(f"{shown}: manifests include each other too deeply: at most {MAX_DEPTH} levels.", file=shown)
    options.budget.spend_parts()
    written = read_document(file, shown, options.budget)
    document, choice = _choose_parts(written, options.env, choice)
    options = replace(options.for_documents_in(file.parent), folder=file.parent)
    build = _prepare(written, document, options, choice, (*ancestors, file))
    kit = Builder(build=build).toolkit(file.stem)
    if choice.name is not None:
        kit.name = choice.name
    store = kit._view.store  # noqa: SLF001  # of another package of this project
    store.audience = choice.audience
    if choice.audience is None and isinstance(
        parts := merge_part(written, "profiles", choice.profile).data.get("audiences"), Mapping
    ):
        store.separate_audiences |= frozenset(parts)
    return kit


def _load_nested(location: str, build: Build, profile: str | None) -> Toolkit:
    shown = build.document.yaml.name if build.document.yaml is not None else ""
    choice = Choice(profile=profile or build.profile, audience=build.audience, is_profile_required=profile is not None)
    nested_shown = (Path(shown).parent / location).as_posix()
    return load_manifest(location, build.read_options, choice, shown=nested_shown, ancestors=build.ancestors)


def _choose_parts(written: Document, env: Mapping[str, str], choice: Choice) -> tuple[Document, Choice]:
    """Return the document with the profile and the audience merged over it, and what was chosen."""
    profile, is_required = choice.profile, choice.is_profile_required
    source = ""
    if profile is None and is_required and env.get(PROFILE_VARIABLE):
        profile, source = env[PROFILE_VARIABLE], f" The environment variable {PROFILE_VARIABLE} names it."
    if profile is not None and (problem := unknown_part(written, "profiles", profile)) is not None:
        if is_required:
            raise written.error([Problem(path=("profiles",), message=problem + source)])
        profile = None
    document = written
    for kind, name in (("profiles", profile), ("audiences", choice.audience)):
        document = merge_part(document, kind, name)
    return document, replace(choice, profile=profile)


def _prepare(
    written: Document, document: Document, options: ReadOptions, choice: Choice, ancestors: tuple[Path, ...]
) -> Build:
    """Return what the toolkit is made from. Raises SourceError for what can be seen without loading a source."""
    resolved = resolve_variables(document.data, options.variables, options.budget)
    manifest, problems = validate(resolved.data)
    unresolved = {problem.path for problem in resolved.problems}
    problems = [*resolved.problems, *(problem for problem in problems if problem.path not in unresolved)]
    if document is not written:
        written_problems = validate_written(written.data)
        known = {document.origin(problem.path) for problem in problems}
        problems += [
            replace(problem, path=problem.path, is_written=True)
            for problem in written_problems
            if problem.path not in known
        ]
    if problems or manifest is None:
        raise document.error(problems)
    return Build(
        document=document,
        manifest=manifest,
        resolved=resolved,
        read_options=options,
        profile=choice.profile,
        audience=choice.audience,
        ancestors=ancestors,
    )


_TOOLKIT_OPTIONS = (
    "timeout", "max_concurrency", "max_background", "mask_errors", "strict", "output",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Builder:
    """Makes the toolkit of a manifest, all of it or none."""

    build: Build

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
        self._add_toolsets(kit)
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
            return source_adder.read_http(self.build, index)
        if isinstance(source, source_model.OpenAPISource):
            contents = source_adder.read_openapi(self.build, index, source)
        else:
            contents = read_source(kind, location, self.build.read_options)
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
            nested = _load_nested(location, self.build, getattr(source, "profile", None))
        except SourceError as error:
            if error.line is None:  # no part of that file is wrong: it is missing, or it leads to itself
                raise
            raise NestedError(self.build.resolved.redact(str(error)), file=error.file, line=error.line) from None
        self.build.nested.append(nested)
        add_load_errors(kit, nested.load_errors)
        return Contents(name=nested.name, toolkit=nested)

    def _add_toolsets(self, kit: Toolkit) -> None:
        """Add the toolsets of files, then those of the manifest, which replace them, then the agents."""
        build, manifest = self.build, self.build.manifest
        self._add_toolset_files(kit)
        toolsets = {name: _to_selection(toolset) for name, toolset in manifest.toolsets.items()}
        self._add_selections(kit, "toolsets", toolsets)
        for name in manifest.agents:
            if name in kit.toolsets:
                with build.at("agents", name):
                    raise ToolkitError(f"there is a toolset {name!r}: an agent is a toolset, so give it another name")
        agents = {name: agent_selection(agent) for name, agent in manifest.agents.items()}
        self._add_selections(kit, "agents", agents)
        for name, agent in manifest.agents.items():
            for message in unknown_tools(kit, agent.tools):
                log.warning("The agent %r: %s", name, message)

    def _add_toolset_files(self, kit: Toolkit) -> None:
        build, options = self.build, self.build.read_options
        places = build.manifest.tool_sets if "tool_sets" in build.manifest.model_fields_set else None
        with build.at("tool_sets"):
            files = find_files(options.folder, places)
            options.budget.spend_parts(len(files))
            for error in add_toolset_files(kit, files, options):
                with build.at("tool_sets"):
                    raise _to_nested(error)

    def _add_selections(self, kit: Toolkit, section: str, selections: Mapping[str, Any]) -> None:
        waiting = dict(selections)
        while waiting:  # a toolset may be made of one that comes later
            failed: dict[str, ToolSpecError] = {}
            self.build.read_options.budget.spend_parts(len(waiting))
            for name, options in waiting.items():
                try:
                    kit.add_toolset(name, **options)
                except ToolSpecError as error:
                    failed[name] = error
            if failed.keys() == waiting.keys():
                for name, failure in failed.items():
                    with self.build.at(section, name):
                        raise failure
                return
            waiting = {name: waiting[name] for name in failed}

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


def _to_nested(error: SourceError) -> NestedError:
    return NestedError(str(error), file=error.file, line=error.line)


def _to_selection(toolset: Any) -> dict[str, Any]:
    options = {"description": toolset.description, **_to_conditions(toolset), "ordered": toolset.ordered}
    if "any_of" in toolset.model_fields_set:
        options["any_of"] = [item if isinstance(item, str) else _to_conditions(item) for item in toolset.any_of]
    return options


def _to_conditions(conditions: Any) -> dict[str, Any]:
    given: Mapping[str, Any] = conditions.fields_set("tools", "tags", "groups", "audience", "toolset")
    return {"names" if key == "tools" else key: value for key, value in given.items() if value is not None}


def refuse_unknown_tools(build: Build, kit: Toolkit) -> None:
    """Make problems of names and patterns in `tools` and `presets` that no tool has, and of parameters of patterns.

    A part of a source that could not be loaded may have them, so then `check` finds them. A server may have what fits a
    pattern later; of the tools that fit it now, one must have its parameters.
    """
    store = kit._view.store  # noqa: SLF001  # of another package of this project
    servers = store.imported_servers.values()
    known: dict[str, Collection[str]] = dict(build.parameters)
    for imported in servers:
        known |= imported.local_parameters()
    named = list(_named_tools(build))
    used = {name for name, _, _ in named if any(fnmatch.fnmatchcase(tool, name) for tool in known)}
    for imported in servers:
        imported.tools_of_others = used  # also of those that are left out here
    problems = list(_find_unknown(named, known, has_servers=bool(servers)))
    if any(imported.error is not None for imported in servers):
        return  # `check` compares the patterns with the tools that it has then
    if kit.load_errors:
        store.load_findings = tuple(_to_finding(path, error) for path, error in problems)
        return
    for path, error in problems:
        with build.at(*path):
            raise error


def _find_unknown(
    named: Iterable[tuple[str, Path_, dict[str, Path_]]], known: Mapping[str, Collection[str]], *, has_servers: bool
) -> Iterator[tuple[Path_, ToolSpecError]]:
    for name, path, parameters in named:
        matching = [tool for tool in known if fnmatch.fnmatchcase(tool, name)]
        if not matching and not (has_servers and is_pattern(name)):
            what = "no tool matches" if is_pattern(name) else "there is no tool"
            yield path, ToolLookupError(f"{what} {name!r}. {near_misses(name, known)}")
        if not (matching and is_pattern(name)):
            continue
        own = {parameter for tool in matching for parameter in known[tool]}
        for parameter, inner_path in parameters.items():
            if parameter not in own:
                problem = f"none of these tools has a parameter {parameter!r}. {near_misses(parameter, own)}"
                yield (*path, *inner_path), BindError(problem)


def _to_finding(path: Path_, error: ToolSpecError) -> Finding:
    problem, _, fix = str(error).partition(". ")
    place = f"{to_text(path)!r} of the manifest"
    return Finding(rule="unmatched-option", severity="warning", place=place, problem=problem, fix=fix)


def _named_tools(build: Build) -> Iterator[tuple[str, Path_, dict[str, Path_]]]:
    """Yield each name and pattern with its path, and its parameters with their paths below that one."""
    for name, tool in build.manifest.tools.items():
        preset: dict[str, Path_] = {parameter: ("preset", parameter) for parameter in tool.preset}
        yield name, ("tools", name), preset | {parameter: ("binds", parameter) for parameter in tool.binds}
    for name, values in build.manifest.presets.items():
        yield name, ("presets", name), {parameter: (parameter,) for parameter in values}
