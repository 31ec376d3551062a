"""The options of an OpenAPI document as a source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, Final, Literal, TypedDict, get_args

from ahvn_tools.errors import SourceError, near_misses
from ahvn_tools.redaction import reveal_secrets
from ahvn_tools.sources.http.credentials import Credential
from ahvn_tools.sources.http.request import HTTPOptions

Responses = Literal["relaxed", "exact", "none"]
"""How the schema of a response becomes the output schema. See `OpenAPIOptions.responses`."""

SchemeCredential = Credential | Mapping[str, Credential] | None
"""The credential of one security scheme: a key or token, a dict of several, or None to send nothing for it."""


class OpenAPIOptions(TypedDict, total=False):
    """The options of an OpenAPI document. All are optional."""

    base_url: str
    """The URL that all requests begin with, instead of the document's `servers`. Private addresses are allowed if it
    has `localhost` or a number as its host."""
    variables: Mapping[str, str]
    """The variables of the server's URL; the document's defaults otherwise."""
    auth: Mapping[str, SchemeCredential]
    """Credentials by the names of the document's security schemes: `{"api_key": "${PETSTORE_KEY}"}`. A scheme with a
    user name takes a dict with `username` and `password`, one with OAuth's client credentials a dict with `client_id`
    and `client_secret`. None sends nothing."""
    headers: Mapping[str, Credential]
    """Headers of every request, for a document that does not name its security schemes: `{"Authorization": "Bearer
    ${NAME}"}`. A secret one is `"${NAME}"` or `"Prefix ${NAME}"`, a SecretStr or a function. They replace what a scheme
    or a parameter would send there."""
    tags: Iterable[str]
    """Only operations with one of these tags; `*` stands for any characters."""
    operations: Iterable[str]
    """Only operations with one of these ids (`listPets`, `pets_*`), or methods and paths (`GET /pets/*`)."""
    methods: Iterable[str]
    """Only operations of these HTTP methods."""
    exclude: Iterable[str]
    """Operations that are left out, written as in `operations`."""
    rename: Mapping[str, str]
    """New names of tools, by operation id or by the name that the tool would have."""
    prefix: str
    """A text before each name that `rename` does not set."""
    deprecated: bool
    """Whether deprecated operations become tools, too; their description says so."""
    responses: Responses
    """`"relaxed"` (default): output schemas have the names and types of the document, and any member may be missing or
    null. `"exact"`: they are the document's. `"none"`: there are none. A response that does not fit is
    `invalid_result`."""
    timeout: float | None
    """Seconds that a call may take, 30 by default; None: no limit."""
    http: HTTPOptions | Mapping[str, Any]
    """How requests are sent: retries, size limits, private addresses. A dict has the fields of HTTPOptions."""
    document_url: str
    """The URL that the document was read from, if it was. Relative server URLs refer to it, and credentials are sent to
    another origin only with `base_url`."""
    environment: Mapping[str, str]
    """The environment that `${NAME}` in `auth` is read from; this process's by default."""
    max_values: int
    """How many values may be read and copied of a document that is passed as an object: 3,000,000 by default. For files
    and URLs, `load` has an option of this name."""
    external_files: bool
    """Whether the document may refer to files in its own folder; only for a document that is read from a file."""


_LISTS: Final = ("tags", "operations", "methods", "exclude")


def parse_options(options: OpenAPIOptions) -> OpenAPIOptions:
    """Return the options, with HTTPOptions. Raises SourceError for an unknown option and for a wrong value."""
    options = OpenAPIOptions(**options)
    for name in ("base_url", "variables", "prefix"):  # those from a manifest's environment are sealed
        if name in options:
            options[name] = reveal_secrets(options[name])
    _check(options)
    options["http"] = _to_http_options(options.get("http") or {})
    return options


def _to_http_options(value: HTTPOptions | Mapping[str, Any]) -> HTTPOptions:
    if isinstance(value, HTTPOptions):
        return value
    known = [one.name for one in fields(HTTPOptions)]
    for name in value:
        if name not in known:
            raise SourceError(f"There is no option {name!r} in `http`. {near_misses(name, known)}")
    parsed = dict(value)
    if isinstance(parsed.get("allow_private"), list):
        parsed["allow_private"] = tuple(parsed["allow_private"])
    return HTTPOptions(**parsed)


def _check(options: OpenAPIOptions) -> None:
    for name in options:
        if name not in OpenAPIOptions.__annotations__:
            known = OpenAPIOptions.__annotations__
            raise SourceError(f"There is no option {name!r} for an OpenAPI document. {near_misses(name, known)}")
    for name in _LISTS:
        value: Any = options.get(name)
        if isinstance(value, str) or not all(isinstance(item, str) for item in value or ()):
            raise SourceError(f"{name} is a list of texts, such as {name}=['…'], not {value!r}.")
    for name in ("variables", "auth", "headers", "rename"):
        if not isinstance(options.get(name) or {}, Mapping):
            raise SourceError(f"{name} is a dict, such as {name}={{'name': '…'}}.")
    for name in ("base_url", "document_url", "prefix"):
        if not isinstance(options.get(name) or "", str):
            raise SourceError(f"{name} is a text, not a {type(options.get(name)).__name__}.")
    responses = options.get("responses", "relaxed")
    if responses not in get_args(Responses):
        raise SourceError(f"responses must be 'relaxed', 'exact' or 'none', not {responses!r}.")
