"""HTTP as a source: OpenAPI documents, by file or URL or as data, and single requests as data."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from ahvn_tools.errors import DefinitionError, SkippedOperationError, SourceError, ToolCallError
from ahvn_tools.loading.contents import Contents
from ahvn_tools.loading.read_options import ReadOptions, expand
from ahvn_tools.redaction.credentials import mask_credentials
from ahvn_tools.regular_file import read_text
from ahvn_tools.sources.budget import BudgetError
from ahvn_tools.sources.http.body import require_trust
from ahvn_tools.sources.http.options import build_from_url
from ahvn_tools.spec import ToolSpec

if TYPE_CHECKING:
    from ahvn_tools.sources.http.responses import HTTPResponse
    from ahvn_tools.sources.yaml_file import YamlDocument

MAX_BYTES: Final = 32_000_000
FETCH_SECONDS: Final = 30.0
_ACCEPT: Final = "application/json, application/yaml, application/vnd.oai.openapi, */*;q=0.5"


def read(location: Any, options: ReadOptions) -> Contents:
    """Return the tools of a document. Raises SourceError, with the line if the document is a file.

    `options.choices` are as for `ToolSpec.from_openapi`.
    """
    from ahvn_tools.sources.openapi.document import DocumentError
    from ahvn_tools.sources.openapi.source import read_tools

    document = _Source.open(location, options)
    choices: Any = {"environment": options.env, "trust": options.trust, **options.choices}
    if document.is_remote:
        choices["document_url"] = document.location
    open_file = partial(document.read_file, options) if document.location and not document.is_remote else None
    try:
        label = document.label.partition("?")[0]
        tools = read_tools(document.value, choices, open_file, label=label, budget=options.budget)
    except DocumentError as error:
        raise document.locate(error) from None
    except BudgetError:  # it names the source that the host has named
        raise
    except SourceError as error:
        raise SourceError(f"{document.label}: {error}", file=document.label) from error
    specs = tuple(ToolSpec(template, body) for template, body in tools.tools.values())
    errors = tuple(document.locate(error, SkippedOperationError) for error in tools.errors)
    return Contents(name=_to_name(tools.title) or document.stem, tools=specs, errors=errors)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class _Source:
    """A document, and where it was read."""

    value: Any
    location: str = ""
    """The path or the URL."""
    yaml: YamlDocument | None = None
    files: dict[str, _Source] = field(default_factory=dict)
    """The files that the document refers to, by their paths relative to it."""

    @classmethod
    def open(cls, location: Any, options: ReadOptions) -> _Source:
        """Read a document from a file or a URL. Raises SourceError with the line."""
        from ahvn_tools.loading.json_file import parse_json
        from ahvn_tools.sources.yaml_file import read_yaml

        if isinstance(location, Mapping):
            return cls(value=dict(location))
        path = str(location) if _is_url(location) else str(options.resolve(str(location)))
        if _is_url(path):
            options.trust.require_server(path)
        text, label = _fetch(path) if _is_url(path) else read_text(Path(path), path), mask_credentials(path)
        if text.lstrip()[:1] in {"{", "["}:
            return cls(value=parse_json(text, label, budget=options.budget), location=path)
        yaml = read_yaml(text, label, options.budget)
        return cls(value=yaml.value, location=path, yaml=yaml)

    @property
    def is_remote(self) -> bool:
        """Whether the document was read from a URL."""
        return _is_url(self.location)

    @property
    def label(self) -> str:
        """How errors name the document."""
        return mask_credentials(self.location) if self.location else "the document"

    @property
    def stem(self) -> str:
        """The name of the file without its ending."""
        return Path(self.label).stem if self.location else "tools"

    def read_file(self, options: ReadOptions, name: str) -> Any:
        """Return the content of a file in the document's folder. Raises SourceError, also for any other file."""
        folder = Path(self.location).resolve().parent
        path = Path(os.path.normpath(folder / name))
        is_file = path.is_relative_to(folder) and os.path.isfile(path)  # noqa: PTH113  # Path's raises for some names
        if not (is_file and path.resolve().is_relative_to(folder)):  # a link may lead elsewhere
            raise SourceError(f"it refers to {name!r}, which is no file in the folder of the document.")
        path = path.resolve()
        options.require_readable(str(path))
        options.budget.spend_parts()
        options.budget.spend(chars=path.stat().st_size)
        self.files[name] = self.open(path, options)
        return self.files[name].value

    def locate(self, error: SourceError, kind: type[SourceError] = SourceError) -> SourceError:
        """Return an error of this kind with the file, and the line if it is known: that of a YAML file."""
        pointer = getattr(error, "pointer", None)  # of a DocumentError
        name, _, steps = (pointer or "").partition("#")
        source = self.files.get(name, self)
        yaml = None if pointer is None else source.yaml
        line = None if yaml is None else yaml.line_of(_path(yaml.value, steps))
        place = source.label if line is None else f"{source.label}, line {line}"
        return kind(f"{place}: {str(error).removeprefix(name)}", file=source.label, line=line)


def _path(value: Any, pointer: str) -> list[str | int]:
    """Return the path of a JSON pointer, in which the steps into lists are numbers."""
    steps: list[str | int] = []
    for step in (unquote(step).replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]):
        is_index = isinstance(value, list) and step.isdecimal() and int(step) < len(value)
        steps.append(int(step) if is_index else step)
        value = value[steps[-1]] if is_index else value.get(step) if isinstance(value, dict) else None
    return steps


def _is_url(location: object) -> bool:
    return str(location).lower().startswith(("http://", "https://"))


def _fetch(url: str) -> str:
    """Return the text at a URL that the host has named, with its user and password. Raises SourceError."""
    import asyncio

    import httpx2

    from ahvn_tools.execution import background_loop
    from ahvn_tools.execution.runner import capture_outcome
    from ahvn_tools.sources.http.request import HTTPOptions
    from ahvn_tools.sources.http.sending import Sender

    http = HTTPOptions(timeout=FETCH_SECONDS, max_response_bytes=MAX_BYTES, allow_private=True, retry_count=0)
    request = httpx2.Request("GET", url, headers={"Accept": _ACCEPT, **_authorization(url)})
    label = mask_credentials(url)
    sender = Sender(tool=label, options=http)

    async def send() -> HTTPResponse:
        async with asyncio.timeout(FETCH_SECONDS):
            return await sender.send(request)

    try:
        response: HTTPResponse = background_loop.run(capture_outcome, send).get()
    except TimeoutError:
        raise SourceError(f"{label} cannot be read: the server took more than {FETCH_SECONDS:g} seconds.") from None
    except ToolCallError as error:
        raise SourceError(f"{label} cannot be read: {error.message}") from error
    if response.is_error:
        raise SourceError(f"{label} cannot be read: the server answers {response.status}.")
    try:
        return response.body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SourceError(f"{label} is not UTF-8.") from None


def _authorization(url: str) -> dict[str, str]:
    """Return the header with the user and the password in a URL."""
    parts = urlsplit(url)
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _to_name(title: str) -> str:
    """Return the title of a document as the name of a toolkit."""
    return re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_")[:64]


_EXPANDED: Final = ("api_url", "token_url", "scope", "token_audience", "ca_file", "proxy")
"""What has the variables of the environment replaced when the tool is made. Credentials read theirs at each call."""


def read_request(location: Mapping[str, Any], options: ReadOptions) -> Contents:
    """Return the tool of an HTTP request as data: `name`, `api_url` and the options of `ToolSpec.from_http`.

    Raises SourceError and DefinitionError.
    """
    data = dict(location)
    if not (isinstance(data.get("name"), str) and isinstance(data.get("api_url"), str)):
        raise DefinitionError("An HTTP tool has a `name` and an `api_url`, which are texts.")
    url: str = data["api_url"]
    if "${" in url.partition("?")[2]:
        raise DefinitionError(
            "A variable in the query of api_url would be no secret: use auth_method 'api_key_query' with an api_key."
        )
    for key in _EXPANDED:
        if key in data:
            data[key] = expand(data[key], options.variables)
    if data.get("ca_file") is not None:
        data["ca_file"] = str(options.folder / data["ca_file"])
    origin = f"{str(data.get('method', 'GET')).upper()} {url.partition('?')[0]}"  # with the names of variables
    template, body = build_from_url(data.pop("name"), data.pop("api_url"), data, options.env, origin)
    require_trust(template, body, options.trust)
    return Contents(name=template.name, tools=(ToolSpec(template, body),))
