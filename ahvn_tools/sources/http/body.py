"""HTTPBody: the function that sends the request of a tool; and the template of such a tool."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar
from urllib.parse import urlsplit

from ahvn_tools.binding import EnvironmentVariable
from ahvn_tools.errors import DefinitionError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.redaction.names import Secret, is_secret_name
from ahvn_tools.schema.refs import without_properties
from ahvn_tools.settings import to_wire_annotations
from ahvn_tools.sources import json_schema
from ahvn_tools.sources.http.checks import check_request, is_address
from ahvn_tools.sources.http.credentials import Credential, credential_binding, parse_credential
from ahvn_tools.sources.http.request import (
    IDEMPOTENT_METHODS,
    READ_ONLY_METHODS,
    Basic,
    ClientCredentials,
    HTTPOptions,
    HTTPRequest,
)
from ahvn_tools.sources.untyped_arguments import property_names
from ahvn_tools.template import ToolTemplate
from ahvn_tools.trust import Trust, require_all

_OPENING_KEYWORDS = frozenset({"$ref", "additionalProperties", "allOf", "anyOf", "oneOf", "patternProperties"})
"""Keywords of an object's schema that may allow more than its properties."""


class HTTPBody:
    """Sends the request of one tool. It contains no credential, and can be pickled."""

    takes_private_names: ClassVar[bool] = True

    def __init__(
        self,
        name: str,
        request: HTTPRequest,
        options: HTTPOptions = HTTPOptions(),  # noqa: B008  # it is frozen
        *,
        hidden: Iterable[str] = (),
        wants_json: bool = False,
        is_remote: bool = False,
        named: Iterable[str] = (),
        origin: str | None = None,
    ) -> None:
        """`name` is the tool's, for errors; `hidden` are the parameters that no model sets."""
        self.name = name
        self.request = request
        self.options = options
        self.hidden = tuple(hidden)
        self.wants_json = wants_json
        """Whether the tool has an output schema."""
        self.is_remote = is_remote
        """Whether another party wrote the definition, so that secret bindings of a toolkit do not reach it."""
        self.named = tuple(named)
        """The credentials that secret bindings of a toolkit reach nevertheless, because the host has named them."""
        self.origin = origin or f"{request.method} {request.base_url}{request.path}"
        """Where the tool comes from, as messages to the host say: without a query and credentials."""

    @property
    def __signature__(self) -> inspect.Signature:
        """The parameters that no model sets; the schema has the others."""
        credentials = self.request.credential_parameters
        parameters = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[Any, Secret] if name in credentials or is_secret_name(name) else Any,
            )
            for name in self.hidden
        ]
        return inspect.Signature([*parameters, inspect.Parameter("arguments", inspect.Parameter.VAR_KEYWORD)])

    def require_trust(self, trust: Trust) -> None:
        """Raise SourceError unless requests, credentials and certificates may be those that the definition names."""
        require_all(self._trust_checks(trust))

    def _trust_checks(self, trust: Trust) -> Iterator[Callable[[], None]]:
        options = self.options
        tokens = [item.token_url for item in self.request.all_security if isinstance(item, ClientCredentials)]
        urls = [url for url in (self.request.base_url, *tokens) if url]
        for url in urls:
            yield partial(trust.require_server, url)
            if options.proxy == "environment":
                yield partial(trust.require_variable, f"{urlsplit(url).scheme.upper()}_PROXY")
        if options.proxy not in (None, "environment"):
            yield partial(trust.require_server, options.proxy)
        if options.follow_redirects is True:
            yield trust.require_any_server
        own = urlsplit(self.request.base_url).hostname or ""
        private = options.allow_private
        if private is True or any(host != own or not is_address(own) for host in private or ()):
            yield trust.require_private
        if options.ca_file is not None:
            yield partial(trust.require_file, Path(options.ca_file))

    def __repr__(self) -> str:
        return f"<HTTPBody {self.name!r}>"

    async def __call__(self, private_names: frozenset[str] = frozenset(), /, **arguments: Any) -> Any:
        """Send the request and return the value of the response.

        No redirect takes a body with an argument of `private_names` to another origin.
        """
        from ahvn_tools.sources.http.http_call import send  # httpx2 is imported when a tool is called

        return await send(self, arguments, private_names)


def require_trust(template: ToolTemplate, body: HTTPBody, trust: Trust) -> None:
    """Raise SourceError unless a tool may send its requests, and read the environment variables of its credentials."""
    resolvers = [binding.resolver for binding in template.bindings.values()]
    variables = (
        partial(trust.require_variable, item.name) for item in resolvers if isinstance(item, EnvironmentVariable)
    )
    require_all([partial(body.require_trust, trust), *variables])


def build_template(
    name: str,
    input_schema: JsonObject,
    request: HTTPRequest,
    options: Mapping[str, Any],
    *,
    http_options: HTTPOptions = HTTPOptions(),  # noqa: B008  # it is frozen
    credentials: Mapping[str, Credential] | None = None,
    environment: Mapping[str, str] | None = None,
    is_remote: bool = False,
    named: Iterable[str] = (),
    origin: str | None = None,
) -> tuple[ToolTemplate, HTTPBody]:
    """Return the template of a tool that sends a request, and the body that sends it.

    `input_schema` describes all arguments; those in headers and cookies are taken out of it. `credentials` are by the
    names of `request.credential_parameters`; one without a value may be bound later. `environment` has their variables.
    `options` are ToolOptions. `is_remote`: another party wrote the definition, so that secret bindings of a toolkit do
    not reach the tool, but for the credentials `named`. `origin` is where the definition is written; its method and URL
    by default.
    """
    plain = {item.username for item in request.all_security if isinstance(item, Basic)}
    plain |= {item.client_id for item in request.all_security if isinstance(item, ClientCredentials)}
    own_bindings = {
        key: credential_binding(key, parse_credential(key, item, environment, may_be_plain=key in plain))
        for key, item in (credentials or {}).items()
    }
    hidden = request.hidden_parameters(property_names(input_schema))
    schema = visible_schema(name, input_schema, request)
    request = request.with_places(property_names(schema))
    check_request(name, request, hidden, http_options)
    annotations = {**method_annotations(request.method), **to_wire_annotations(options.get("annotations") or {})}
    timeout = options.get("timeout", http_options.timeout)
    is_repeatable = bool(annotations["idempotentHint"] or annotations["readOnlyHint"])
    body = HTTPBody(
        name,
        request,
        replace(http_options, timeout=timeout, is_repeatable=is_repeatable),
        hidden=hidden,
        wants_json=options.get("output_schema") is not None,
        is_remote=is_remote,
        named=named,
        origin=origin,
    )
    options = {"description": "", **options, "annotations": annotations, "timeout": timeout}
    template, _ = json_schema.build_template(name, schema, body, options)
    template.output.mismatch = _describe_mismatch(body)
    return replace(template, bindings={**template.bindings, **own_bindings}), body


def _describe_mismatch(body: HTTPBody) -> tuple[str, str]:
    """Return what models read and what the host is told of a response that does not fit the output schema."""
    statuses = ", ".join(body.request.described_statuses)
    whose = f"that of the responses with status {statuses} of" if statuses else "that of"
    return (
        "The service has processed the request, but its response is not one that the tool may return.",
        f"the output schema is {whose} {body.origin}. The request has been processed. responses='none' accepts any.",
    )


def method_annotations(method: str) -> JsonObject:
    """Return MCP's hints that follow from the method: RFC 9110, section 9.2."""
    return {
        "readOnlyHint": method in READ_ONLY_METHODS,
        "destructiveHint": method == "DELETE",
        "idempotentHint": method in IDEMPOTENT_METHODS,
        "openWorldHint": True,
    }


def visible_schema(name: str, input_schema: JsonObject, request: HTTPRequest) -> JsonObject:
    """Return the schema without the arguments that no model sets; it is closed unless it says otherwise.

    Raises DefinitionError for a property that is sent nowhere.
    """
    if not isinstance(input_schema, dict):
        raise DefinitionError(f"input_schema of {name!r} must be a dict: {{'type': 'object', 'properties': {{…}}}}.")
    hidden = request.hidden_parameters(property_names(input_schema))
    schema = without_properties(copy.deepcopy(input_schema), frozenset(hidden))
    for property_name in property_names(schema):
        if request.find_argument(property_name) is None:
            raise DefinitionError(
                f"{name!r} does not send {property_name!r} anywhere: name it in the path, `query`, `body` or `header`."
            )
    required = schema.get("required", [])
    in_path = [name for name, place in request.arguments.items() if place.location == "path"]
    if isinstance(required, list) and (more := {*in_path} & {*property_names(schema)} - {*required}):
        schema["required"] = [*required, *(name for name in in_path if name in more)]  # no URL is without them
    if schema.keys().isdisjoint(_OPENING_KEYWORDS):
        schema["additionalProperties"] = False
    return schema
