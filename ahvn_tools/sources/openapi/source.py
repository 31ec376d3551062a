"""OpenAPI documents as a source: the templates and bodies of their operations, and what had to be left out."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ahvn_tools.errors import DefinitionError, SourceError, clip, near_misses
from ahvn_tools.invisible import escape, escape_line, find
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.keywords import WRAP_RESULT_KEY
from ahvn_tools.schema.refs import unused_name
from ahvn_tools.sources.budget import Budget
from ahvn_tools.sources.http.body import HTTPBody, build_template, require_trust
from ahvn_tools.sources.http.request import HTTPRequest
from ahvn_tools.sources.openapi.bodies import Body, find_success_statuses, read_body, read_output_schema
from ahvn_tools.sources.openapi.document import Document, DocumentError, Node, OpenFile
from ahvn_tools.sources.openapi.operations import MAX_REASON_CHARS, Operation, explain, find_operations, select
from ahvn_tools.sources.openapi.options import OpenAPIOptions, parse_options
from ahvn_tools.sources.openapi.parameters import build_arguments, fit_path, read_parameters, without
from ahvn_tools.sources.openapi.schemas import SchemaConverter
from ahvn_tools.sources.openapi.security import SecuritySchemes
from ahvn_tools.sources.openapi.servers import Servers
from ahvn_tools.template import ToolTemplate
from ahvn_tools.trust import Trust, require_all

_logger = logging.getLogger(__name__)

Tool = tuple[ToolTemplate, HTTPBody]


@dataclass(frozen=True, kw_only=True)
class OpenAPITools:
    """The tools of a document."""

    tools: Mapping[str, Tool]
    """Template and body by name, in the order of the document."""
    errors: tuple[SourceError, ...] = ()
    """The reasons for the operations that are no tools."""
    title: str = ""
    """The title of the document."""


def read_tools(
    document: Any,
    options: OpenAPIOptions,
    open_file: OpenFile | None = None,
    *,
    label: str = "the document",
    budget: Budget | None = None,
) -> OpenAPITools:
    """Return the tools of a document of OpenAPI 3, as JSON objects; `label` says where it was read.

    `open_file` reads what the document refers to, with the option `external_files`.
    What is copied is taken from the budget, its own one by default. An operation that cannot be a tool is skipped and
    logged. Raises SourceError for a document that has no tools, and for options that do not fit it.
    """
    options = parse_options(options)
    trust = options.get("trust")
    trust = trust if isinstance(trust, Trust) else Trust(trust)
    budget = budget or Budget(label, options.get("max_values"))
    if options.get("external_files") and open_file is None:
        raise SourceError("external_files is for a document that is read from a file; remove it.")
    document = _with_schemes(document, options.get("security_schemes") or {})
    root = Document.read(document, budget, open_file if options.get("external_files") else None).node
    errors: list[DocumentError] = []
    found = find_operations(root, errors)
    operations = select(found, options)
    builder = _Builder(root, options, label)
    builder.refuse_unused_credentials(found)
    if operations and not builder.knows_server(operations[0]):
        _logger.warning(
            "The document does not say where its server is, or says it with a relative URL: calls fail without "
            "base_url='https://…'."
        )
    names = _choose_names(operations, options)
    tools: dict[str, Tool] = {}
    for name, operation in names.items():
        try:
            tools[name] = builder.build(name, operation)
        except DocumentError as error:
            errors.append(explain(operation.label, error))
        except DefinitionError as error:
            errors.append(explain(operation.label, operation.node.error(str(error))))
    builder.refuse_unknown_variables()
    for skipped in errors:
        _logger.warning("%s", skipped)
    if not tools:
        raise errors[0] if errors else SourceError("The document has no operation that becomes a tool.")
    require_all(partial(require_trust, template, body, trust) for template, body in tools.values())
    return OpenAPITools(tools=tools, errors=tuple(errors), title=root_title(root))


def _with_schemes(document: Any, schemes: Mapping[str, Any]) -> Any:
    """Return the document with security schemes of the host. They are used where it says nothing of security."""
    if not schemes or not isinstance(document, Mapping):
        return document
    if wrong := [name for name in schemes if name.startswith("x-")]:  # OpenAPI has extensions there
        raise SourceError(
            f"security_schemes: the name {wrong[0]!r} of a scheme must not begin with 'x-': choose another."
        )
    components = document.get("components")
    components = dict(components) if isinstance(components, Mapping) else {}
    own = components.get("securitySchemes")
    components["securitySchemes"] = {**(own if isinstance(own, Mapping) else {}), **schemes}
    required: list[JsonObject] = [{name: [] for name in schemes}]
    return {**document, "components": components, "security": document.get("security", required)}


def root_title(root: Node) -> str:
    """Return the title of a document, or an empty text."""
    info = root.get("info")
    return "" if info is None else escape(str(info.value.get("title", "")) if isinstance(info.value, dict) else "")


def _choose_names(operations: list[Operation], options: OpenAPIOptions) -> dict[str, Operation]:
    """Return the operations by the names of their tools. Raises SourceError for names that clash or match nothing."""
    renames, prefix = dict(options.get("rename") or {}), options.get("prefix") or ""
    named: dict[str, Operation] = {}
    used: set[str] = set()
    for operation in operations:
        key = _find_rename(operation, renames, used, prefix)
        if key is not None:
            used.add(key)
            if renames[key] in named:
                raise SourceError(f"rename: two tools would be named {renames[key]!r}; choose different names.")
            named[renames[key]] = operation
        else:
            named[unused_name(prefix + operation.name, named)] = operation
    for key in renames.keys() - used:
        known = [operation.name for operation in operations]
        raise SourceError(f"rename: there is no operation {key!r}. {near_misses(key, known)}")
    return named


def _find_rename(operation: Operation, renames: Mapping[str, str], used: Container[str], prefix: str) -> str | None:
    """Return the key of `rename` that means an operation: the name of its tool, or its id if no other one has it."""
    names = (operation.name, prefix + operation.name)
    return next(
        (key for key in (*names, operation.operation_id) if key in renames and (key in names or key not in used)), None
    )


class _Builder:
    """Builds the tools of one document."""

    def __init__(self, root: Node, options: OpenAPIOptions, label: str) -> None:
        self._root = root
        self._options = options
        self._label = label
        self._schemes = SecuritySchemes(root, options.get("auth") or {}, options.get("headers") or {})
        for name in options.get("security_schemes") or {}:
            self._schemes.get(name)  # it raises for an unusable one
        self._servers = Servers(root, options)
        self._budget = root.document.budget
        is_relaxed = options.get("responses", "relaxed") == "relaxed"
        self._requests = SchemaConverter("request", self._budget)
        self._responses = SchemaConverter("response", self._budget, is_relaxed=is_relaxed)

    def refuse_unused_credentials(self, operations: Iterable[Operation]) -> None:
        """Raise SourceError for a credential that no operation of the document needs."""
        root = self._root.get("security")
        needed = [operation.node.get("security") or root for operation in operations]
        self._schemes.refuse_unused({node.pointer: node for node in needed if node is not None}.values())

    def refuse_unknown_variables(self) -> None:
        """Raise SourceError for a variable that no server of the tools has."""
        self._servers.refuse_unknown_variables()

    def knows_server(self, operation: Operation) -> bool:
        """Whether the document says where an operation's requests are sent."""
        return self._servers.url_of(operation) != ""

    def build(self, name: str, operation: Operation) -> Tool:
        """Return the template and the body of an operation. Raises DocumentError or DefinitionError."""
        node = operation.node
        base_url = self._servers.url_of(operation)
        self._budget.spend_parts()
        self._budget.spend(chars=len(base_url) + len(operation.path))
        own = self._servers.keep_trusted(operation, self._schemes.own)
        required = self._schemes.alternatives(node.get("security") or self._root.get("security"))
        alternatives = [self._servers.keep_trusted(operation, schemes) for schemes in required]
        lists = (operation.path_item.get("parameters"), node.get("parameters"))
        path, query, parameters = fit_path(operation.path, read_parameters(*lists))
        parameters = without(parameters, self._schemes.places)
        declared = {one.name for one in parameters if one.location == "query"}
        body = read_body(node.get("requestBody"), self._requests)
        schemes = [*own, *(scheme for alternative in alternatives for scheme in alternative)]
        credentials = {key: value for scheme in schemes for key, value in scheme.credentials.items()}
        hidden = [key for scheme in schemes for key in scheme.security.parameters]
        own_schemes = self._options.get("security_schemes") or {}
        input_schema, places = build_arguments(parameters, body, self._requests, hidden)
        output_schema = self._read_output_schema(operation)
        request = HTTPRequest(
            described_statuses=() if output_schema is None else find_success_statuses(node),
            other_content=self._find_other_content(output_schema),
            method=operation.method.upper(),
            base_url=base_url,
            path=path,
            query=tuple(pair for pair in query if pair[0] not in declared),
            arguments=places,
            body_type="json" if body is None else body.kind,
            body_content_type=None if body is None else _content_type(body),
            list_content_type=None if body is None else body.list_content_type,
            body_members={} if body is None else body.whole_members,
            headers={"Accept": "application/json, */*;q=0.5", **self._schemes.headers},
            security=tuple(scheme.security for scheme in own),
            alternatives=tuple(dict.fromkeys(tuple(scheme.security for scheme in schemes) for schemes in alternatives)),
        )
        definition: JsonObject = {
            "description": _describe(operation),
            "tags": operation.tags,
            "input_schema": input_schema,
            "output_schema": output_schema,
        }
        self._budget.spend_size(definition)
        definition = _screen(definition)
        return build_template(
            name,
            definition.pop("input_schema"),
            request,
            {**definition, **({"timeout": self._options["timeout"]} if "timeout" in self._options else {})},
            http_options=self._servers.http_options(base_url),
            credentials=credentials,
            environment=self._options.get("environment"),
            is_remote=self._options.get("document_url") is not None,
            named=dict.fromkeys(
                key for scheme in schemes if scheme.name in own_schemes for key in scheme.security.parameters
            ),
            origin=f"{escape_line(operation.label)} in {self._label}",
        )

    def _find_other_content(self, output_schema: JsonObject | None) -> JsonObject | None:
        """Return the structured content of a response that is not described; None: it must fit the output schema."""
        if output_schema is None or not self._responses.is_relaxed:
            return None
        return {"result": None} if WRAP_RESULT_KEY in output_schema else {}

    def _read_output_schema(self, operation: Operation) -> JsonObject | None:
        """Return the output schema; None, with a warning, if what the document says of responses cannot be read."""
        if self._options.get("responses") == "none":
            return None
        try:
            return read_output_schema(operation.node, self._responses)
        except DocumentError as error:
            _logger.warning("%s has no output schema: %s", escape_line(clip(operation.label, MAX_REASON_CHARS)), error)
            return None


def _content_type(body: Body) -> str | None:
    """Return the media type of a body if it is not the one that its kind has."""
    return None if body.kind == "multipart" else body.content_type


def _describe(operation: Operation) -> str:
    """Return the description of a tool: summary, description, and whether it is deprecated."""
    node = operation.node
    summary, description = (node.read(key, str, "").strip() for key in ("summary", "description"))
    if description.startswith(summary):
        summary = ""
    notice = "Deprecated." if operation.is_deprecated else ""
    return "\n\n".join(filter(None, (summary, description, notice))) or operation.label


def _screen(value: Any) -> Any:
    """Return a part of a definition with the invisible characters of all texts escaped: a person would not see them.

    Raises DefinitionError for a member whose name has such characters: the server would not recognize another name.
    """
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, list):
        return list(map(_screen, value))
    if not isinstance(value, dict):
        return value
    for name in value:
        if characters := find(name):
            raise DefinitionError(f"the name of a member has invisible characters: {', '.join(characters)}.")
    return {name: _screen(item) for name, item in value.items()}
