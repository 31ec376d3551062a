"""OpenAPI documents as a source: a file or a URL, in JSON or YAML, or the document itself."""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote, urlsplit

from ahvn_tools.errors import SkippedOperationError, SourceError, ToolCallError
from ahvn_tools.loading.contents import Contents
from ahvn_tools.loading.json_file import find_json_lines, read_text
from ahvn_tools.loading.options import ReadOptions
from ahvn_tools.redaction import mask_credentials
from ahvn_tools.sources.budget import Budget, BudgetError
from ahvn_tools.spec import ToolSpec

if TYPE_CHECKING:
    from ahvn_tools.sources.http.body import HTTPBody
    from ahvn_tools.sources.http.responses import HTTPResponse
    from ahvn_tools.sources.openapi.document import DocumentError, OpenFile
    from ahvn_tools.sources.openapi.options import OpenAPIOptions

MAX_BYTES: Final = 32_000_000
FETCH_SECONDS: Final = 30.0
_ACCEPT: Final = "application/json, application/yaml, application/vnd.oai.openapi, */*;q=0.5"


def read(location: Any, options: ReadOptions, choices: OpenAPIOptions | None = None) -> Contents:
    """Return the tools of a document. Raises SourceError, with the line if the document is a file.

    `choices` are as for `ToolSpec.from_openapi`.
    """
    from ahvn_tools.sources.http.body import require_trust
    from ahvn_tools.sources.openapi.document import DocumentError
    from ahvn_tools.sources.openapi.source import read_tools

    document = _Source.open(location, options)
    choices = {"environment": options.env, **(choices or {})}
    if document.is_remote:
        choices["document_url"] = document.location
    open_file = document.open_file if choices.pop("external_files", False) else None
    try:
        label = document.label.partition("?")[0]
        tools = read_tools(document.value, choices, open_file, label=label, budget=options.budget)
    except DocumentError as error:
        raise document.locate(error) from None
    except BudgetError:  # it names the source that the host has named
        raise
    except SourceError as error:
        raise SourceError(f"{document.label}: {error}", file=document.label) from error
    for template, body in tools.tools.values():
        require_trust(template, cast("HTTPBody", body), options.trust)
    specs = tuple(ToolSpec(template, body) for template, body in tools.tools.values())
    document.find_lines(error for error in tools.errors if isinstance(error, DocumentError))
    errors = tuple(document.locate(error, SkippedOperationError) for error in tools.errors)
    return Contents(name=_to_name(tools.title) or document.stem, tools=specs, errors=errors)


class _Source:
    """A document, and where it was read."""

    def __init__(self, location: str, text: str, value: Any, budget: Budget) -> None:
        """`location` is a path or a URL, or empty."""
        self.location = location
        self.is_remote = _is_url(location)
        self.value = value
        self.label = mask_credentials(location) if location else "the document"
        self._text = text
        self._lines: dict[tuple[str, ...], int | None] = {}
        """The lines of JSON pointers that were looked for."""
        self._budget = budget

    @classmethod
    def open(cls, location: Any, options: ReadOptions) -> _Source:
        """Read a document from a file or a URL. Raises SourceError."""
        if isinstance(location, Mapping):
            return cls("", "", dict(location), options.budget)
        path = str(location) if _is_url(location) else str(options.resolve(str(location)))
        if _is_url(path):
            options.trust.require_server(path)
        text = _fetch(path) if _is_url(path) else read_text(Path(path))
        return cls(path, text, _parse(text, path, options.budget), options.budget)

    @property
    def stem(self) -> str:
        """The name of the file without its ending."""
        return Path(self.label).stem if self.location else "tools"

    @property
    def open_file(self) -> OpenFile:
        """What reads another file of the document's folder, and nothing outside of it."""
        if not self.location or self.is_remote:
            raise SourceError("external_files is for a document that is read from a file; remove it.")
        folder = Path(self.location).resolve().parent

        def read_file(name: str) -> Any:
            path = (folder / name).resolve()
            if not path.is_relative_to(folder):
                raise SourceError(f"{self.label} refers to {name!r}, which is outside of its folder.")
            if not path.is_file():  # a pipe may never end
                raise SourceError(f"{self.label} refers to {name!r}, which is no file.")
            text = read_text(path)
            self._budget.spend_parts()
            self._budget.spend(chars=len(text))
            return _parse(text, str(path), self._budget)

        return read_file

    def locate(self, error: SourceError, kind: type[SourceError] = SourceError) -> SourceError:
        """Return an error of this kind with the file, and the line if it is known."""
        from ahvn_tools.sources.openapi.document import DocumentError

        file, line = self.label, None
        if isinstance(error, DocumentError) and error.document_file:
            file = error.document_file
        elif isinstance(error, DocumentError):
            line = self._find_line(error)
        place = file if line is None else f"{file}, line {line}"
        return kind(f"{place}: {error}", file=file, line=line)

    def find_lines(self, errors: Iterable[DocumentError]) -> None:
        """Find the lines of all errors at once, because the whole text is read for it."""
        paths = {_steps(error.pointer) for error in errors if not error.document_file} - self._lines.keys()
        if not paths or not self._text:
            return
        if self._text.lstrip()[:1] in {"{", "["}:
            self._lines |= find_json_lines(self._text, paths)
            return
        from ahvn_tools.loading.yaml_file import read_yaml

        with contextlib.suppress(SourceError):
            document = read_yaml(self._text, keeps_last=True)
            self._lines |= {path: document.line_of(_in_value(document.value, path)) for path in paths}

    def _find_line(self, error: DocumentError) -> int | None:
        """Return the line of a JSON pointer."""
        self.find_lines([error])
        return self._lines.get(_steps(error.pointer))


def _steps(pointer: str) -> tuple[str, ...]:
    return tuple(unquote(step).replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])


def _in_value(value: Any, path: tuple[str, ...]) -> list[str | int]:
    """Return a path in which the steps into lists are numbers."""
    steps: list[str | int] = []
    for step in path:
        is_index = isinstance(value, list) and step.isdecimal() and int(step) < len(value)
        steps.append(int(step) if is_index else step)
        value = value[steps[-1]] if is_index else value.get(step) if isinstance(value, dict) else None
    return steps


def _is_url(location: object) -> bool:
    return str(location).lower().startswith(("http://", "https://"))


def _parse(text: str, location: str, budget: Budget) -> Any:
    """Return the content of a JSON or YAML text. Raises SourceError with the line."""
    from ahvn_tools.loading.json_file import parse_json
    from ahvn_tools.loading.yaml_file import read_yaml

    label = mask_credentials(location)
    if text.lstrip()[:1] in {"{", "["}:
        return parse_json(text, label, budget=budget)
    return read_yaml(text, label, budget, keeps_last=True).value  # as JSON is read


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
