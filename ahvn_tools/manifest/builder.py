"""Builder: reads a manifest, and makes its toolkit, all of it or none."""

from __future__ import annotations

import contextlib
import fnmatch
import inspect
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from ahvn_tools.code_mode.code_limits import CodeLimits
from ahvn_tools.errors import (
    BindError,
    SourceError,
    ToolCallError,
    ToolkitError,
    ToolLookupError,
    ToolSpecError,
    near_misses,
)
from ahvn_tools.execution.call import Middleware
from ahvn_tools.loading.contents import (
    Contents,
    ServerSource,
    add_load_errors,
    add_skills,
    adopt_servers,
    close_servers,
    skipping,
)
from ahvn_tools.loading.kinds import classify, prepare_source, read_source
from ahvn_tools.loading.python_modules import check as check_module
from ahvn_tools.loading.python_modules import read_member, split_location
from ahvn_tools.loading.read_options import VARIABLE, Place, ReadOptions
from ahvn_tools.manifest import middleware_table, model
from ahvn_tools.manifest.document import (
    ManifestDocument,
    Problem,
    merge_part,
    read_document,
    resolve_variables,
    to_text,
    unknown_part,
)
from ahvn_tools.manifest.validation import describe_option_errors, validate, validate_written
from ahvn_tools.mcp.client.mcp_config import ServerEntry
from ahvn_tools.mcp.trust.limits import Budgets, Limits
from ahvn_tools.registry import ToolRegistry
from ahvn_tools.schema.dialects.finding import Finding
from ahvn_tools.secret_key import SecretKey
from ahvn_tools.settings import given_options
from ahvn_tools.sources.budget import BudgetError
from ahvn_tools.spec import ToolSpec
from ahvn_tools.toolkit import Toolkit
from ahvn_tools.toolkit.approval_rules import ApprovalRule, ApprovalRules
from ahvn_tools.toolkit.entry_options import (
    AddOptions,
    SingleToolOptions,
    is_pattern,
    options_of_tool,
    validate_callable,
    validate_middleware,
)
from ahvn_tools.toolkit.store import lookup
from ahvn_tools.trust import require_all
from ahvn_tools.user_interface import SCHEME, UserInterface

PROFILE_VARIABLE: Final = "AHVN_TOOLS_PROFILE"
"""The environment variable that names the profile where `load` does not."""

MAX_DEPTH: Final = 20
"""How many manifests may lead to another one."""

_UNCHECKED: Final = frozenset({"auth", "env", "headers", "http", "inputs", "preset"})
"""Keys of values that a source can be checked without."""

log = logging.getLogger(__name__)

_EVERY_TOOL: Final = "*"

_TOOLKIT_OPTIONS: Final = (
    "timeout", "max_concurrency", "max_background", "mask_errors", "strict", "output",
)  # fmt: skip

_SERVER_OPTIONS: Final = (
    "timeout", "idempotent", "tasks", "may_receive", "mode", "idle_timeout", "resource_tool", "prompts", "auth", "env",
)  # fmt: skip

_OPENAPI_OPTIONS: Final = (
    "base_url", "variables", "operations", "methods", "deprecated", "responses", "external_files", "timeout",
    "security_schemes",
)  # fmt: skip
"""Options with the same name in a manifest and in `ToolSpec.from_openapi`."""

_COPIED: Final = {*AddOptions.__annotations__, *SingleToolOptions.__annotations__} - {
    "middleware", "name", "preset", "external", "tools",
}  # fmt: skip
"""Options with the same name and value in a manifest and in a toolkit: all but these, which are read otherwise."""


class NestedError(SourceError):
    """An error of another manifest, which names its own file and lines."""


def read(location: str, options: ReadOptions) -> Contents:
    """Return the toolkit of a manifest. Raises SourceError, about all that is wrong, with a line for each."""
    return prepare(location, options)()


def prepare(location: str, options: ReadOptions) -> Callable[[], Contents]:
    """Check a manifest and the trust of all that it names, and return the function that makes its toolkit.

    No code runs, no process starts and no file is written before that is called. Raises SourceError, about all that is
    wrong, with a line for each.
    """
    options.require_readable(location)
    file = options.resolve(location).resolve()
    shown = (options.shown_folder / location).as_posix() if options.manifests else location
    if file in options.manifests:
        chain = " -> ".join(path.name for path in (*options.manifests[options.manifests.index(file) :], file))
        raise SourceError(f"{shown}: the manifest includes itself: {chain}.", file=shown)
    if len(options.manifests) >= MAX_DEPTH:
        raise SourceError(f"{shown}: manifests include each other too deeply: at most {MAX_DEPTH} levels.", file=shown)
    options.budget.spend_parts()
    written = read_document(file, shown, options.budget)
    document, options = _choose_parts(written, options)
    own = replace(
        options.for_documents_in(file.parent),
        folder=file.parent,
        shown_folder=Path(shown).parent,
        manifests=(*options.manifests, file),
    )
    builder = _prepare(written, document, own)

    def make() -> Contents:
        kit = builder.toolkit(file.stem)
        store = kit._view.store  # noqa: SLF001  # of another package of this project
        store.audience = options.audience
        audiences = merge_part(written, "profiles", options.profile).data.get("audiences")
        if options.audience is None and isinstance(audiences, Mapping):
            store.separate_audiences |= frozenset(audiences)
        return Contents(name=kit.name, toolkit=kit)

    return make


def _choose_parts(written: ManifestDocument, options: ReadOptions) -> tuple[ManifestDocument, ReadOptions]:
    """Return the document with the profile and the audience merged over it, and the options with the profile."""
    profile, source = options.profile, ""
    if profile is None and not options.manifests and options.env.get(PROFILE_VARIABLE):
        profile, source = options.env[PROFILE_VARIABLE], f" The environment variable {PROFILE_VARIABLE} names it."
    if profile is not None and (problem := unknown_part(written, "profiles", profile)) is not None:
        if not options.is_profile_inherited:
            raise written.error([Problem(path=("profiles",), message=problem + source)])
        profile = None
    document = written
    for kind, name in (("profiles", profile), ("audiences", options.audience)):
        document = merge_part(document, kind, name)
    return document, replace(options, profile=profile)


def _prepare(written: ManifestDocument, document: ManifestDocument, options: ReadOptions) -> Builder:
    """Return what makes the toolkit. Raises SourceError for what can be seen without loading a source."""
    resolved = resolve_variables(document.data, options.variables, options.budget)
    manifest, problems = validate(resolved.data)
    unresolved = {problem.path for problem in resolved.problems}
    problems = [*resolved.problems, *(problem for problem in problems if problem.path not in unresolved)]
    if document is not written:
        known = {document.origin(problem.path) for problem in problems}
        others = [problem for problem in validate_written(written.data) if problem.path not in known]
        problems += [replace(problem, is_written=True) for problem in others]
    if manifest is None or len(problems) > len(resolved.problems):
        raise document.error(problems)
    builder = Builder(document, manifest, resolved, options)
    builder.check()
    return builder


class Builder:
    """Makes the toolkit of a manifest, all of it or none."""

    def __init__(
        self, document: ManifestDocument, manifest: model.Manifest, resolved: Any, options: ReadOptions
    ) -> None:
        self._document = document
        self._manifest = manifest
        self._resolved = resolved
        self._options = options
        self._problems: list[Problem] = [*resolved.problems]
        self._prepared: dict[int, Callable[[], Contents]] = {}
        """The functions that read the sources, by their indexes."""
        self._single_options: dict[str, SingleToolOptions] = {}
        self._parameters: dict[str, set[str]] = {}
        """The tools that the sources contain, also those that are left out: name here -> parameters."""
        self._included: set[int] = set()
        """The indexes of the sources that are manifests."""
        self._nested: list[Toolkit] = []
        """The toolkits of the manifests that this one includes."""
        self._others: list[Toolkit] = []
        """The toolkits that other sources define."""

    def check(self) -> None:
        """Check the trust of all parts, and read the sources that run no code. Raises SourceError about all of them."""
        manifest, options = self._manifest, self._options
        self._options.budget.spend_parts(len(manifest.sources))
        with self._checking("roots"):
            self._roots(manifest.roots)
        if (approval := manifest.approval) is not None:
            with self._checking("approval", "approver"):
                self._check_member(approval.approver)
            for key in ("store", "remember"):
                with self._checking("approval", key):
                    if (file := getattr(approval, key)) is not None:
                        options.to_output(file)
        self._check_middleware(manifest.middleware, "middleware")
        for name, tool in manifest.tools.items():
            self._check_middleware(tool.middleware, "tools", name, "middleware")
            with self._checking("tools", name, "ui"):
                if (page := _file_of_interface(tool.ui)) is not None:
                    options.require_readable(page)
        for index, source in enumerate(manifest.sources):
            self._check_middleware(source.middleware, "sources", index, "middleware")
            with self._checking("sources", index):
                self._prepared[index] = self._prepare(index, source)
        for index, skills in enumerate(manifest.skills):
            with self._checking("skills", index):
                self._require_trusted_skills(skills)
        self._raise_problems()

    @contextlib.contextmanager
    def _checking(self, *path: str | int) -> Iterator[None]:
        """Collect errors, as `_at` does. What lacks the value of a variable that is not there has that problem only."""
        before = len(self._problems)
        with self._at(*path):
            yield
        if any(self._is_needed(path, problem.path) for problem in self._resolved.problems):
            del self._problems[before:]

    @staticmethod
    def _is_needed(path: Place, variable: Place) -> bool:
        """Return whether a part cannot be checked without the variable at a place. Credentials are not looked at."""
        return variable[: len(path)] == path and _UNCHECKED.isdisjoint(variable[len(path) :])

    def _check_member(self, location: str | None) -> None:
        if location is not None and split_location(location)[1] is not None:
            check_module(location, self._options)

    def _check_middleware(self, items: Sequence[dict[str, dict[str, Any] | None]], *path: str | int) -> None:
        for index, item in enumerate(items):
            ((name, options),) = item.items()
            with self._checking(*path, index):
                if ":" in name:
                    self._check_member(name)
                else:
                    with self._describing_options(name):
                        middleware_table.arguments(name, options or {}, self._options)

    @staticmethod
    @contextlib.contextmanager
    def _describing_options(name: str) -> Iterator[None]:
        try:
            yield
        except ToolSpecError:
            raise
        except ValueError as error:
            raise ToolSpecError(describe_option_errors(name, error, middleware_table.MIDDLEWARE[name])) from None

    def toolkit(self, default_name: str) -> Toolkit:
        """Return the toolkit. Raises SourceError about all that is wrong; no server stays connected then."""
        self._kit = self._new_toolkit(default_name)
        try:
            self._fill()
        except BaseException:
            for loaded in (self._kit, *self._nested):
                close_servers(loaded)
            raise
        for other in (*self._nested, *self._others):
            adopt_servers(self._kit, other)
        return self._kit

    def _fill(self) -> None:
        kit, manifest = self._kit, self._manifest
        parts = (
            manifest.groups,
            manifest.middleware,
            manifest.binds,
            manifest.tools,
        )  # `check` has counted the sources
        self._options.budget.spend_parts(sum(map(len, parts)))
        for name, group in manifest.groups.items():
            with self._at("groups", name):
                kit.add_group(name, group.description, active=group.active, notes=group.notes)
        for layer in self._middleware(manifest.middleware, "middleware"):
            with self._at("middleware"):
                kit.use(layer)
        for name, bind in manifest.binds.items():
            with self._at("binds", name):
                is_secret = bind.secret or self._resolved.contains_secret(("binds", name, "default"))
                kit.bind(name, bind.key, **bind.fields_set("default"), secret=is_secret, required=bind.required)
        for name, tool in manifest.tools.items():
            options: Any = self._copied_options(tool, "tools", name)
            if tool.preset:
                options["preset"] = self._resolved.seal(tool.preset, ("tools", name, "preset"))
            self._single_options[name] = options
        self._raise_problems()
        for index, source in enumerate(manifest.sources):
            with self._at("sources", index):
                self._add(index, source, self._read(index))
        self._raise_problems()
        self._refuse_unknown_tools()
        for index, skills in enumerate(manifest.skills):
            with self._at("skills", index):
                self._add_skills(skills)
        self._add_toolsets()
        self._add_model_tools()
        self._raise_problems()

    @contextlib.contextmanager
    def _at(self, *path: str | int) -> Iterator[None]:
        """Collect an error as a problem of a part of the manifest."""
        try:
            yield
        except BudgetError:  # nothing is left for what comes after it
            raise
        except NestedError as error:
            self._problems.append(Problem(path=path, message=str(error), is_complete=True))
        except (ToolSpecError, ToolCallError) as error:  # such as a ToolConnectionError
            self._problems.append(Problem(path=path, message=self._resolved.redact(str(error))))

    def _raise_problems(self) -> None:
        if self._problems:
            raise self._document.error(self._problems) from None

    def _new_toolkit(self, default_name: str) -> Toolkit:
        manifest = self._manifest
        options = manifest.fields_set(*(name for name in _TOOLKIT_OPTIONS if getattr(manifest, name) is not None))
        with self._at("roots"):
            options["roots"] = self._roots(manifest.roots)
        options |= self._approval()
        self._raise_problems()
        name, executor = manifest.name or default_name, self._options.executor
        with self._at():
            return Toolkit(name, executor=executor, on_duplicate=manifest.on_duplicate, **options)
        raise self._document.error(self._problems)

    def _roots(self, roots: Sequence[str] | None) -> tuple[Path, ...] | None:
        """Return the roots that a manifest names, or those that the host passes. Raises SourceError."""
        return self._options.roots if roots is None else self._options.to_roots(roots)

    def _approval(self) -> dict[str, Any]:
        approval = self._manifest.approval
        options: dict[str, Any] = {}
        if approval is None:
            return options
        if approval.approver is not None:
            with self._at("approval", "approver"):
                options["approver"] = self._member(approval.approver)
                validate_callable("An approver", "a function of the request", options["approver"])
        if approval.secret_key is not None:
            with self._at("approval", "secret_key"):
                variable = VARIABLE.fullmatch(self._document.data["approval"]["secret_key"])
                if variable is None or variable["name"] is None or variable["default"] is not None:
                    raise ToolSpecError(
                        "a key is no part of a file, nor its default: write `${APPROVAL_KEY}`, and set that variable."
                    )
                SecretKey.create(approval.secret_key)  # it names the key, before the toolkit is made
                options["secret_key"] = approval.secret_key
        if approval.store is not None:
            with self._at("approval", "store"):
                options["approval_store"] = self._options.to_output(approval.store)
        if "expiry" in approval.model_fields_set:
            options["approval_expiry"] = approval.expiry
        return options | self._rules(approval)

    def _rules(self, approval: model.ApprovalModel) -> dict[str, Any]:
        rules: dict[str, Any] = approval.fields_set("mode", "allow", "ask", "deny")
        if approval.remember is not None:
            with self._at("approval", "remember"):
                rules["remember"] = self._options.to_output(approval.remember)
        for key in ("allow", "ask", "deny"):
            for index, text in enumerate(rules.get(key, ())):
                with self._at("approval", key, index):
                    ApprovalRule.parse(text)
        return {"rules": ApprovalRules(**rules)} if rules and not self._problems else {}

    def _copied_options(self, part: Any, *path: str | int) -> dict[str, Any]:
        """Return the options of a source, or of single tools, that a toolkit takes as they are, and middleware."""
        options = given_options(part.fields_set(*part.model_fields_set & _COPIED))
        if "middleware" in part.model_fields_set:
            options["middleware"] = self._middleware(part.middleware, *path, "middleware")
        if "ui" in options:
            with self._at(*path, "ui"):
                options["ui"] = self._interface(options["ui"])
        return options

    def _interface(self, option: str | dict[str, Any]) -> UserInterface:
        """Return the interface of a tool. Raises SourceError for a file that the manifest may not read."""
        if isinstance(option, str):
            option = {"resourceUri" if option.startswith(SCHEME) else "html": option}
        if (file := _file_of_interface(option)) is not None:
            self._options.require_readable(file)
            option = {**option, "html": self._options.resolve(file)}
        return UserInterface.of(option)

    def _middleware(self, items: Sequence[dict[str, dict[str, Any] | None]], *path: str | int) -> list[Middleware]:
        """Return the middleware of these items. A wrong one is a problem."""
        made = []
        for index, item in enumerate(items):
            with self._at(*path, index):
                made.append(validate_middleware(self._make_middleware(item)))
        return made

    def _make_middleware(self, item: dict[str, dict[str, Any] | None]) -> Middleware:
        ((name, options),) = item.items()
        if ":" not in name:
            with self._describing_options(name):
                return middleware_table.build(name, options or {}, self._options)
        member = self._member(name)
        if options is None:
            return member  # type: ignore[no-any-return]  # it is validated
        _require_parameters(name, member, options)
        try:
            made: Middleware = member(**options)
        except ToolSpecError:
            raise
        except Exception as error:  # code of the host
            raise ToolSpecError(f"{name!r} cannot be made with these options: {type(error).__name__}.") from error
        return made

    def _member(self, location: str) -> Any:
        """Return the object at an import path. Raises SourceError."""
        file, name = split_location(location)
        if name is None:
            raise ToolSpecError(f"{location!r} is no import path: write `module:name` or `FILE.py:name`.")
        return read_member(file, name, self._options)

    def _prepare(self, index: int, source: model.AnySource) -> Callable[[], Contents]:
        """Return the function that reads a source. Raises SourceError for what is not trusted, or wrong."""
        if isinstance(source, model.ServerSourceModel):
            servers = self._read_servers(index, source)
            return lambda: servers
        if isinstance(source, model.HTTPSource):
            written = self._document.data["sources"][index]["http"]  # with the names of variables
            return prepare_source("http", written, self._options)
        if isinstance(source, model.ExternalSource):
            written = source.external.fields_set(*model.ExternalTool.model_fields)
            schema = written.pop("input_schema", source.external.input_schema)
            spec = ToolSpec.from_schema(written.pop("name"), schema, external=True, **given_options(written))
            return lambda: Contents(name=spec.name, tools=(spec,))
        key = next(key for key in model.LOCATIONS if hasattr(source, key))
        if not (location := getattr(source, key)):
            raise SourceError(f"`{key}` is empty.")
        kind: Any = key
        options = self._options
        if isinstance(source, model.TextSource):
            options.require_readable(source.source)
            kind, location = classify(source.source, options.folder)
        if kind == "manifest":
            return self._prepare_nested(index, location, getattr(source, "profile", None))
        if isinstance(source, model.OpenAPISource):
            options = replace(options, choices=self._openapi_options(index, source))
        elif kind == "builtins":
            return self._prepare_builtins(location, source)
        return prepare_source(kind, location, options)

    def _prepare_builtins(self, location: Any, source: Any) -> Callable[[], Contents]:
        own = {} if isinstance(source, model.TextSource) else source.model_dump()
        limits = {name: own[name] for name in ("read_only", "approve", "sandbox", "network") if name in own}
        handler, own_roots = own.get("ask_handler"), own.get("roots")
        options = replace(self._options, choices=limits)
        require_all(
            [
                partial(check_builtins, location, options),
                partial(self._check_member, handler),
                partial(self._roots, own_roots or ()),
            ]
        )

        def read_tools() -> Contents:
            roots = self._roots(own_roots or self._manifest.roots)
            asking = {} if handler is None else {"ask_handler": self._member(handler)}
            return read_source("builtins", location, replace(options, roots=roots, choices={**limits, **asking}))

        return read_tools

    def _read(self, index: int) -> Contents:
        """Return what a source contains. Raises SourceError."""
        contents = self._prepared[index]()
        if contents.toolkit is not None and index in self._included:
            self._nested.append(contents.toolkit)
            add_load_errors(self._kit, contents.toolkit.load_errors)
            return contents
        add_load_errors(self._kit, contents.errors)
        self._others.extend(thing for thing in contents.things if isinstance(thing, Toolkit))
        return contents

    def _prepare_nested(self, index: int, location: str, profile: str | None) -> Callable[[], Contents]:
        self._included.add(index)
        options = self._options
        if profile is None:
            options = replace(options, is_profile_inherited=True)
        else:
            options = replace(options, profile=profile, is_profile_inherited=False)
        with self._naming_own_file():
            make = prepare_source("manifest", location, options)

        def read_tools() -> Contents:
            with self._naming_own_file():
                return make()

        return read_tools

    @contextlib.contextmanager
    def _naming_own_file(self) -> Iterator[None]:
        try:
            yield
        except SourceError as error:
            if error.line is None:  # no part of that file is wrong: it is missing, or it leads to itself
                raise
            raise NestedError(self._resolved.redact(str(error)), file=error.file, line=error.line) from None

    def _openapi_options(self, index: int, source: model.OpenAPISource) -> dict[str, Any]:
        given = source.fields_set(*_OPENAPI_OPTIONS)
        written = self._document.data["sources"][index]  # with the names of variables
        return {
            **{name: value for name, value in given.items() if value is not None},
            **{name: written[name] for name in ("auth", "headers") if getattr(source, name)},
            **({"http": source.http_options} if source.http_options else {}),
            **({"tags": source.operation_tags} if source.operation_tags else {}),
        }

    def _read_servers(self, index: int, source: model.ServerSourceModel) -> Contents:
        """Return the servers of a source, with the options of their connections."""
        is_file = isinstance(source.server, str) and source.server.endswith(".json")
        is_secret = not is_file and self._resolved.contains_secret(("sources", index, "server"))
        hidden_name = f"server_{index + 1}" if is_secret else None  # a name is shown
        options: dict[str, Any] = source.fields_set(*_SERVER_OPTIONS)
        for key in ("stderr", "pin"):
            if (file := getattr(source, key)) is not None:
                with self._at("sources", index, key):
                    options[key] = self._options.to_output(file)
        for variable in source.env:
            with self._at("sources", index, "env", variable):
                self._options.trust.require_variable(variable)
        contents = read_source(
            "server", _to_target(source, hidden_name), replace(self._options, choices={"inputs": source.inputs})
        )
        for key, kind in (("limits", Limits), ("budgets", Budgets)):
            if values := getattr(source, key):
                with self._at("sources", index, key):
                    options[key] = _to_limits(kind, values)
        is_text = isinstance(source.server, str)
        servers = tuple(
            replace(
                server,
                name=source.name or (is_text and hidden_name) or server.name,
                options={**server.options, **options},
            )
            for server in contents.servers
        )
        return replace(contents, servers=servers)

    def _add(self, index: int, source: model.AnySource, contents: Contents) -> None:
        """Add what a source contains. Raises ToolSpecError."""
        tools = _to_tools(contents)
        if contents.toolkit is not None:  # the groups that it defines and the manifest does not
            for name, group in contents.toolkit._view.groups().items():  # noqa: SLF001  # of another package of this project
                if group.is_defined and name not in self._kit.groups:
                    self._kit.add_group(name, group.description, active=group.is_active, notes=group.notes)
            skills = contents.toolkit._view.skills(inactive=True)  # noqa: SLF001  # as above
            self._kit._view.store.add_skills(skills.values())  # noqa: SLF001  # as above
        if tools or not (contents.servers or contents.skills):
            self._add_tools(index, source, tools)
        if self._is_for_audience(source.audience):
            options = source.fields_set("group", "audience")
            add_skills(self._kit, contents, **{key: value for key, value in options.items() if value is not None})
        for server in contents.servers:
            self._add_server(index, source, server)

    def _require_trusted_skills(self, skills: model.SkillsModel) -> None:
        from ahvn_tools.skills.folders import find_package  # few manifests have skills

        if (skills.path is None) == (skills.server is None):
            raise ToolSpecError("skills have a `path` or a `server`, and not both.")
        if skills.path is None or not self._is_for_audience(skills.audience):
            return
        if (package := find_package(skills.path, self._options.folder)) is not None:
            self._options.trust.require_module(package)
        else:
            self._options.require_readable(skills.path)

    def _add_skills(self, skills: model.SkillsModel) -> None:
        from ahvn_tools.skills.folders import find_package  # as above

        trust, wanted = self._options.trust, skills.trust
        if not self._is_for_audience(skills.audience):
            return
        source: Any = skills.path
        if skills.server is not None:
            source = lookup("MCP server", skills.server, self._kit.servers)
        elif find_package(source, self._options.folder) is None:
            source = self._options.resolve(source)
        if trust.is_limited and not (isinstance(source, Path) and trust.trusts_file(source)):
            wanted = False
        options = {key: value for key, value in skills.fields_set("group", "audience").items() if value is not None}
        self._kit.add_skills(source, trust=wanted, **options)

    def _add_tools(self, index: int, source: Any, tools: Sequence[ToolSpec]) -> None:
        self._refuse_unknown_names(index, source, [tool.name for tool in tools])
        if isinstance(source, model.OpenAPISource):
            self._warn_of_labels(index, source, tools)
        included = [tool for tool in tools if _is_included(source, tool.name)]
        options = self._copied_options(source, "sources", index)
        binds, tags = options.pop("binds", {}), options.pop("tags", ())
        known = {name for tool in included for name in _parameters(tool)}
        for name in binds:
            if name not in known:
                with self._at("sources", index, "binds", name):
                    raise BindError(f"no tool of this source has a parameter {name!r}. {near_misses(name, known)}")
        for tool in included:
            name, parameters = source.prefix + source.rename.get(tool.name, tool.name), _parameters(tool)
            self._parameters.setdefault(name, set()).update(parameters)
            merged: Any = {**options, **options_of_tool(self._single_options, name, parameters)}
            own_binds = {key: value for key, value in binds.items() if key in parameters}
            merged |= {"binds": {**own_binds, **merged.get("binds", {})}, "tags": {*tags, *merged.get("tags", ())}}
            if merged.pop("enabled", True) and self._is_for_audience(merged.get("audience", ())):
                self._add_tool(index, tool, name, merged)

    def _warn_of_labels(self, index: int, source: model.OpenAPISource, tools: Sequence[ToolSpec]) -> None:
        """Log that `tags` choose no operations, if the document has them as tags of some operations."""
        known = {tag for tool in tools for tag in tool.tags}
        if (tags := sorted(known.intersection(source.tags))) and not source.operation_tags:
            log.warning(
                "sources[%d]: `tags` are added to all tools of the document, and choose none. To choose the operations "
                "with a tag of the document, write `operation_tags: [%s]`.",
                index,
                ", ".join(tags),
            )

    def _add_tool(self, index: int, tool: ToolSpec, name: str, options: Any) -> None:
        try:
            self._kit.add(tool, rename=name, **options)
        except ToolSpecError:
            wrong = _find_wrong_option(tool, options, self._kit)
            path = ("sources", index) if wrong is None else self._option_path(index, name, *wrong)
            with self._at(*path):
                raise

    def _option_path(self, index: int, name: str, option: str, *keys: str) -> Place:
        """Return where the manifest has an option of a tool, or a key in that."""
        for pattern, single in reversed(self._single_options.items()):
            value: Any = single.get(option)
            if option in single and fnmatch.fnmatchcase(name, pattern) and all(key in value for key in keys):
                return ("tools", pattern, option, *keys)
        return ("sources", index, option, *keys)

    def _add_server(self, index: int, source: Any, server: ServerSource) -> None:
        unfit = [name for name in model.FunctionOptions.model_fields if name in source.model_fields_set]
        if getattr(source, "binds", None):
            unfit.append("binds")
        for name in unfit:
            with self._at("sources", index, name):
                raise ToolSpecError("this source is an MCP server, and this is no option of one: see `server:`.")
        if self._problems:
            return  # the manifest is wrong: no server is started for it
        options = {**server.options, **self._copied_options(source, "sources", index)}
        options |= source.fields_set("include", "exclude", "prefix", "rename")
        options["tools"] = self._tools_for_audience(options.pop("audience", None), options)
        target, name = server.server, server.name
        locations = {("sources", index), ("sources", index, "source")}
        if not isinstance(target, Mapping) and not locations.isdisjoint(self._resolved.secret_paths):
            name = f"server_{index + 1}"  # a name is shown, so it is not made from a text with a variable
        if isinstance(target, list):  # a command, which starts in the folder of the manifest
            target = {"": ServerEntry(command=tuple(target), cwd=str(self._document.folder))}
        with skipping(server.file, lambda error: add_load_errors(self._kit, [error])):
            self._kit.add_mcp(target, name=name, **options)

    def _tools_for_audience(self, audience: Collection[str] | None, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of single tools, without the tools that are not for the audience of this toolkit."""
        if audience is not None:
            options["audience"] = audience
        tools: dict[str, Any] = {}
        if not self._is_for_audience(audience or ()):
            tools[_EVERY_TOOL] = {"enabled": False}
        for pattern, single in self._single_options.items():
            own: dict[str, Any] = {**single}
            if "audience" in single:
                own["enabled"] = single.get("enabled", True) and self._is_for_audience(single["audience"])
            tools[pattern] = {**tools.get(pattern, {}), **own}
        return tools

    def _is_for_audience(self, audience: Iterable[str]) -> bool:
        """Return whether tools of these audiences are in this toolkit."""
        own, audience = self._options.audience, frozenset(audience)
        return own is None or not audience or own in audience

    def _refuse_unknown_names(self, index: int, source: Any, tools: Collection[str]) -> None:
        """Make problems of names and patterns that fit no tool of the source."""
        for key in ("include", "exclude", "rename"):
            for name in getattr(source, key):
                if not (fnmatch.filter(tools, name) if key != "rename" else name in tools):
                    with self._at("sources", index, key):
                        what = "matches no tool" if is_pattern(name) else "is no tool"
                        raise ToolLookupError(f"{name!r} {what} of this source. {near_misses(name, tools)}")

    def _refuse_unknown_tools(self) -> None:
        """Make problems of names and patterns in `tools` that no tool has, and of parameters of patterns.

        A part of a source that could not be loaded may have them, so then `check` finds them. A server may have what
        fits a pattern later; of the tools that fit it now, one must have its parameters.
        """
        store = self._kit._view.store  # noqa: SLF001  # of another package of this project
        servers = store.imported_servers.values()
        known: dict[str, Collection[str]] = dict(self._parameters)
        for imported in servers:
            known |= imported.local_parameters()
        used = {name for name in self._manifest.tools if fnmatch.filter(known, name)}
        for imported in servers:
            imported.tools_of_others = used  # also of those that are left out here
        problems = list(self._find_unknown(known, has_servers=bool(servers)))
        if any(imported.error is not None for imported in servers):
            return  # `check` compares the patterns with the tools that it has then
        if self._kit.load_errors:
            store.load_findings = tuple(_to_finding(path, error) for path, error in problems)
            return
        for path, error in problems:
            with self._at(*path):
                raise error

    def _find_unknown(
        self, known: Mapping[str, Collection[str]], *, has_servers: bool
    ) -> Iterator[tuple[Place, ToolSpecError]]:
        for name, tool in self._manifest.tools.items():
            matching = fnmatch.filter(known, name)
            if not matching and not (has_servers and is_pattern(name)):
                what = "no tool matches" if is_pattern(name) else "there is no tool"
                yield ("tools", name), ToolLookupError(f"{what} {name!r}. {near_misses(name, known)}")
            if not (matching and is_pattern(name)):
                continue
            own = {parameter for tool_name in matching for parameter in known[tool_name]}
            for key in ("preset", "binds"):
                for parameter in getattr(tool, key):
                    if parameter not in own:
                        problem = f"none of these tools has a parameter {parameter!r}. {near_misses(parameter, own)}"
                        yield ("tools", name, key, parameter), BindError(problem)

    def _add_toolsets(self) -> None:
        waiting = {name: _to_selection(toolset) for name, toolset in self._manifest.toolsets.items()}
        while waiting:  # a toolset may be made of one that comes later
            failed: dict[str, ToolSpecError] = {}
            self._options.budget.spend_parts(len(waiting))
            for name, options in waiting.items():
                try:
                    self._kit.add_toolset(name, **options)
                except ToolSpecError as error:
                    failed[name] = error
            if failed.keys() == waiting.keys():
                for name, failure in failed.items():
                    with self._at("toolsets", name):
                        raise failure
                return
            waiting = {name: waiting[name] for name in failed}

    def _add_model_tools(self) -> None:
        kit, manifest = self._kit, self._manifest
        if manifest.groups_tool is not None:
            with self._at("groups_tool"):
                tool = kit.groups_tool(**_texts(manifest.groups_tool))
                _refuse_taken_name(kit, tool.name)
                kit.add(tool)
        if (search := manifest.search) is not None:
            with self._at("search"):
                texts: Any = {key: _texts(getattr(search, key)) for key in ("search_tool", "call_tool")}
                for key, default in (("search_tool", "search_tools"), ("call_tool", "call_tool")):
                    _refuse_taken_name(kit, texts[key].get("name", default))
                kit.add_search(search.core, **texts)
        if (code := manifest.code_mode) is not None:
            with self._at("code_mode"):
                if search is not None:
                    raise ToolkitError("a toolkit has `search` or `code_mode`, not both.")
                tools: Any = {key: _texts(getattr(code, key)) for key in ("search_tool", "describe_tool", "run_tool")}
                limits = CodeLimits(**code.limits.model_dump(exclude_none=True))
                kit.add_code_mode(code.core, limits=limits, inline=code.inline, **tools)


def _file_of_interface(option: str | dict[str, Any] | None) -> str | None:
    """Return the file that an interface is read from; None if there is none."""
    file = option.get("html") if isinstance(option, dict) else option
    return file if isinstance(file, str) and not file.startswith(SCHEME) else None


def _require_parameters(name: str, function: Any, options: Mapping[str, Any]) -> None:
    """Raise ToolSpecError for options that a function does not take."""
    if not callable(function):
        raise ToolSpecError(f"{name!r} is a {type(function).__name__} and no function, so it takes no options.")
    parameters = inspect.signature(function).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    for option in options:
        if option not in parameters:
            raise ToolSpecError(f"{name!r} has no option {option!r}. {near_misses(option, parameters)}")


def _to_target(source: model.ServerSourceModel, hidden_name: str | None) -> Any:
    """Return what the reader of servers takes; one entry of an mcp.json becomes one with a name."""
    server = source.server
    if isinstance(server, list):
        server = {"command": server[0], "args": server[1:]} if server else {}
    if isinstance(server, Mapping) and ("command" in server or "url" in server):
        return {"mcpServers": {source.name or hidden_name or _entry_name(server): server}}
    return server


def _entry_name(entry: Mapping[str, Any]) -> str:
    command, url = entry.get("command"), entry.get("url")
    host = urlsplit(url).hostname if isinstance(url, str) else None
    return Path(command).stem if isinstance(command, str) and command else host or "server"


def _to_limits(kind: type[Any], values: Mapping[str, float]) -> Any:
    known = {field.name: field for field in fields(kind)}
    for name in values:
        if name not in known:
            raise ToolSpecError(f"there is no limit {name!r}. {near_misses(name, known)}")
    return kind(**{name: int(value) if known[name].type == "int" else value for name, value in values.items()})


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


def _parameters(tool: ToolSpec) -> list[str]:
    return list(tool.compiled.template.inputs.parameters)


def _is_included(source: model.SourceModel, name: str) -> bool:
    def matches(patterns: Iterable[str]) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)

    return (not source.include or matches(source.include)) and not matches(source.exclude)


def _find_wrong_option(tool: ToolSpec, options: Mapping[str, Any], kit: Toolkit) -> tuple[str, ...] | None:
    """Return the first option with which a tool cannot be added to a toolkit with these groups, and the key in it."""
    groups = [group.name for group in kit._view.groups().values() if group.is_defined]  # noqa: SLF001  # of this project
    trial: dict[str, Any] = {}
    for option in sorted(options, key=lambda option: option != "arguments"):  # others use the new names
        value = options[option]
        is_mapping = option in {"preset", "binds"}
        for path, part in [((option, key), {key: value[key]}) for key in value] if is_mapping else [((option,), value)]:
            trial[option] = {**trial.get(option, {}), **part} if is_mapping else part
            copy = Toolkit("trial")
            for name in groups:
                copy.add_group(name)
            try:
                copy.add(tool, **trial)
            except ToolSpecError:
                return path
    return None


def _to_finding(path: Place, error: ToolSpecError) -> Finding:
    problem, _, fix = str(error).partition(". ")
    place = f"{to_text(path)!r} of the manifest"
    return Finding(rule="unmatched-option", severity="warning", place=place, problem=problem, fix=fix)


def _refuse_taken_name(kit: Toolkit, name: str) -> None:
    """Raise ToolkitError for the name of a tool of the toolkit itself that a source has: models need both."""
    if any(tool.name == name for tool in kit):
        raise ToolkitError(f"there is a tool {name!r} already: give one of them another `name`.")


def _texts(tool: Any) -> Any:
    return {key: value for key, value in tool.fields_set("name", "title", "description").items() if value is not None}


def _to_selection(toolset: Any) -> dict[str, Any]:
    options = {"description": toolset.description, **_to_conditions(toolset), "ordered": toolset.ordered}
    if "any_of" in toolset.model_fields_set:
        options["any_of"] = [item if isinstance(item, str) else _to_conditions(item) for item in toolset.any_of]
    return options


def _to_conditions(conditions: Any) -> dict[str, Any]:
    given: Mapping[str, Any] = conditions.fields_set("tools", "tags", "groups", "audience", "toolset")
    return {"names" if key == "tools" else key: value for key, value in given.items() if value is not None}


_STANDARD: Final = ("files", "shell", "python", "git", "system")


_BUILTINS_DEFAULTS: Final[Mapping[str, Any]] = {"approve": "risky", "sandbox": "auto", "network": False}


def _chosen(location: str | Collection[str]) -> set[str]:
    return set(_STANDARD if isinstance(location, str) else location)


def check_builtins(location: str | Collection[str], options: ReadOptions) -> None:
    """Raise SourceError unless these groups of built-in tools may be used, with these options."""
    own = {**_BUILTINS_DEFAULTS, **options.choices}
    options.trust.require_builtins(_chosen(location), **{name: own[name] for name in _BUILTINS_DEFAULTS})


def read_builtins(location: str | Collection[str], options: ReadOptions) -> Contents:
    """Return the built-in tools of these groups; a text means all groups but text_files and user.

    They use the folders of `options.roots`; `options.choices` are options of `standard_toolkit`. Raises SourceError
    without a folder, for a folder that does not exist, and for what is not trusted.
    """
    from ahvn_tools.builtins.ask_user import AskUser  # many manifests have none of them
    from ahvn_tools.builtins.standard import standard_toolkit
    from ahvn_tools.builtins.workspace import Workspace

    check_builtins(location, options)
    chosen, own = _chosen(location), {**_BUILTINS_DEFAULTS, **options.choices}
    read_only, asking = bool(own.pop("read_only", False)), AskUser(own.pop("ask_handler", None))
    if chosen == {"user"}:  # which uses no folder
        return Contents(name="builtins", tools=(asking,))
    if not options.roots:
        raise SourceError("The built-in tools need folders that they may use: roots=[…], or --root FOLDER.")
    if missing := [root for root in options.roots if not root.is_dir()]:
        raise SourceError(f"There is no folder {str(missing[0])!r} for the built-in tools.")
    workspace = Workspace(options.roots, read_only=read_only, approve=own["approve"])
    groups: dict[str, Any] = {name: name in chosen for name in ("text_files", "shell", "python", "git", "system")}
    kit = standard_toolkit(workspace, name="builtins", ask_user="user" in chosen and asking, **groups, **own)
    if "files" not in chosen:
        kit.remove(*(tool.name for tool in kit.select(groups=["files"])))
    return Contents(name=kit.name, toolkit=kit)
