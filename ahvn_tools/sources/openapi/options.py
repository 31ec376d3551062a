"""The options of an OpenAPI document as a source.

The checks stand in the annotations and are read from there: this module has no `from __future__ import annotations`.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Annotated, Any, Final, Literal, TypedDict, cast, get_args

from ahvn_tools.errors import DefinitionError, SourceError, near_misses
from ahvn_tools.redaction.values import reveal_secrets
from ahvn_tools.settings import check_options, one_of
from ahvn_tools.sources.http.checks import check_sending
from ahvn_tools.sources.http.credentials import Credential, must_fit
from ahvn_tools.sources.http.request import HTTPOptions
from ahvn_tools.trust import Trust

Responses = Literal["relaxed", "exact", "none"]
"""How the schema of a response becomes the output schema. See `OpenAPIOptions.responses`."""

SchemeCredential = Credential | Mapping[str, Credential] | None
"""The credential of one security scheme: a key or token, a dict of several, or None to send nothing for it."""


_NAMES: Final = must_fit(
    "a list of texts",
    lambda value: (
        isinstance(value, Iterable) and not isinstance(value, str) and all(isinstance(item, str) for item in value)
    ),
)
_TEXT: Final = must_fit("a text", lambda value: isinstance(value, str))
_MAPPING: Final = must_fit("a dict, such as {'name': '…'}", lambda value: isinstance(value, Mapping))


class OpenAPIOptions(TypedDict, total=False):
    """The options of an OpenAPI document. All are optional."""

    base_url: Annotated[str, _TEXT]
    """The URL that all requests begin with, instead of the document's `servers`. Private addresses are allowed if it
    has `localhost` or a number as its host."""
    variables: Annotated[Mapping[str, str], _MAPPING]
    """The variables of the server's URL; the document's defaults otherwise."""
    auth: Annotated[Mapping[str, SchemeCredential], _MAPPING]
    """Credentials by the names of the document's security schemes: `{"api_key": "${PETSTORE_KEY}"}`. A scheme with a
    user name takes a dict with `username` and `password`, one with OAuth's client credentials a dict with `client_id`
    and `client_secret`. None sends nothing."""
    security_schemes: Annotated[Mapping[str, Mapping[str, Any]], _MAPPING]
    """Security schemes that the document lacks, as in OpenAPI: `{"key": {"type": "apiKey", "in": "header", "name":
    "X-Api-Key"}}`. They apply to the operations that they are named for and, if the document itself has no `security`,
    to all that say nothing of it. Pass their credentials in `auth`, or bind the parameters of these names."""
    headers: Annotated[Mapping[str, Credential], _MAPPING]
    """Headers of every request, for a document that does not name its security schemes: `{"Authorization": "Bearer
    ${NAME}"}`. A secret one is `"${NAME}"` or `"Prefix ${NAME}"`, a SecretStr or a function. They replace what a scheme
    or a parameter would send there."""
    tags: Annotated[Iterable[str], _NAMES]
    """Only operations with one of these tags; `*` stands for any characters."""
    operations: Annotated[Iterable[str], _NAMES]
    """Only operations with one of these ids (`listPets`, `pets_*`), or methods and paths (`GET /pets/*`)."""
    methods: Annotated[Iterable[str], _NAMES]
    """Only operations of these HTTP methods."""
    exclude: Annotated[Iterable[str], _NAMES]
    """Operations that are left out, written as in `operations`."""
    rename: Annotated[Mapping[str, str], _MAPPING]
    """New names of tools, by operation id or by the name that the tool would have."""
    prefix: Annotated[str, _TEXT]
    """A text before each name that `rename` does not set."""
    deprecated: bool
    """Whether deprecated operations become tools, too; their description says so."""
    responses: Annotated[Responses, one_of(*get_args(Responses))]
    """`"relaxed"` (default): output schemas have the names and types of the document, and any member may be missing or
    null. `"exact"`: they are the document's. `"none"`: there are none. A response that does not fit is
    `invalid_result`."""
    timeout: float | None
    """Seconds that a call may take, 30 by default; None: no limit."""
    http: HTTPOptions | Mapping[str, Any]
    """How requests are sent: retries, size limits, private addresses. A dict has the fields of HTTPOptions."""
    document_url: Annotated[str, _TEXT]
    """The URL that the document was read from, if it was. Relative server URLs refer to it, and credentials are sent to
    another origin only with `base_url`."""
    environment: Mapping[str, str]
    """The environment that `${NAME}` in `auth` is read from; this process's by default."""
    trust: Iterable[str | os.PathLike[str]] | Trust | None
    """What the document may do, as of `load`: the servers that requests are sent to, the variables that are read. By
    default it is all that it names: no code, no file, and only the variables and private addresses of these options."""
    external_files: Annotated[bool, must_fit("True or False", lambda value: isinstance(value, bool))]
    """Whether the document may refer to files in its own folder; only for a document that is read from a file."""
    max_values: int
    """How many values may be read and copied of a document that is passed as an object: 3,000,000 by default. For files
    and URLs, `load` has an option of this name."""


def parse_options(options: OpenAPIOptions) -> OpenAPIOptions:
    """Return the options, with HTTPOptions and without iterators. Raises SourceError for unknown and wrong ones."""
    given: dict[str, Any] = {**options}  # iterators are read more than once
    options = cast("OpenAPIOptions", {name: tuple(x) if isinstance(x, Iterator) else x for name, x in given.items()})
    for name in ("base_url", "variables", "prefix"):  # those from a manifest's environment are sealed
        if name in options:
            options[name] = reveal_secrets(options[name])
    check_options(options, OpenAPIOptions, SourceError)
    options["http"] = http = _to_http_options(options.get("http") or {})
    timeout = options.get("timeout", http.timeout)
    for name, sending in (("http (`http_options` in a manifest): ", http), ("", replace(http, timeout=timeout))):
        try:
            check_sending(sending)
        except DefinitionError as error:
            raise SourceError(f"{name}{error}") from None
    return options


def _to_http_options(value: HTTPOptions | Mapping[str, Any]) -> HTTPOptions:
    if isinstance(value, HTTPOptions):
        return value
    known = [one.name for one in fields(HTTPOptions)]
    for name in value:
        if name not in known:
            hint = near_misses(name, known)
            raise SourceError(f"There is no option {name!r} in `http` (`http_options` in a manifest). {hint}")
    parsed = dict(value)
    if isinstance(parsed.get("allow_private"), list):
        parsed["allow_private"] = tuple(parsed["allow_private"])
    return HTTPOptions(**parsed)
