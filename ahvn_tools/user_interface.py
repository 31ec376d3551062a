"""The interface that a host shows for a tool in the conversation: an HTML page, as the MCP extension Apps has it.

See https://modelcontextprotocol.io/seps/1865-mcp-apps-interactive-user-interfaces-for-mcp (SEP-1865).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

from ahvn_tools.errors import DefinitionError, near_misses
from ahvn_tools.json_types import JsonObject

SCHEME: Final = "ui://"
HTML_TYPE: Final = "text/html;profile=mcp-app"
"""The media type of the page."""

MAX_HTML_BYTES: Final = 4_000_000

_URI: Final = re.compile(r"ui://[\x21-\x7e]{1,1000}")
RESOURCE_KEYS: Final = ("csp", "permissions", "domain", "prefersBorder")
"""What the `_meta` of a page says to the host."""
_KEYS: Final = ("html", "text", "resourceUri", "visibility", *RESOURCE_KEYS)
_READERS: Final = ("model", "app")
_SHAPES: Final[Mapping[str, tuple[type, str]]] = {
    "text": (str, "the text of the page"),
    "resourceUri": (str, "a text such as 'ui://desk/orders.html'"),
    "csp": (dict, "a dict such as {'connectDomains': ['https://api.example.com']}"),
    "permissions": (dict, "a dict such as {'camera': {}}"),
    "domain": (str, "a text"),
    "prefersBorder": (bool, "True or False"),
}


@dataclass(frozen=True, kw_only=True, repr=False)
class UserInterface:
    """The interface of one tool."""

    uri: str | None = None
    """Of the page; None for a tool that has none, and is for the interfaces of other tools."""
    html: str | None = None
    """The page; None if somebody else serves it."""
    visibility: tuple[str, ...] | None = None
    """Who may call the tool: `model`, `app` (the interfaces) or both, which None is, too."""
    resource_meta: JsonObject = field(default_factory=dict)
    """What the host needs to know of the page: `csp`, `permissions`, `domain`, `prefersBorder`."""

    @classmethod
    def of(cls, option: Any) -> Self:
        """Return the interface that the option `ui` names, and read its file.

        Raises DefinitionError for a file that cannot be read, is no HTML in UTF-8 or has more than 4 MB.
        """
        if isinstance(option, cls):
            return option
        if isinstance(option, str | os.PathLike):
            is_uri = isinstance(option, str) and option.startswith(SCHEME)
            option = {"resourceUri" if is_uri else "html": option}
        _check(option)
        uri, html, name = option.get("resourceUri"), option.get("text"), "app.html"
        if "html" in option:
            html, name = _read(option["html"]), Path(option["html"]).name
        if html is not None and uri is None:
            import hashlib  # slow, and few tools have a page

            uri = f"{SCHEME}{hashlib.sha256(html.encode('utf-8', 'replace')).hexdigest()[:16]}/{quote(name)}"
        visibility = option.get("visibility")
        return cls(
            uri=uri,
            html=html,
            visibility=None if visibility is None else tuple(visibility),
            resource_meta={key: option[key] for key in RESOURCE_KEYS if key in option},
        )

    def to_data(self) -> JsonObject:
        """Return the interface as JSON, with the text of the page."""
        fields = {"text": self.html, "resourceUri": self.uri, "visibility": self.visibility and list(self.visibility)}
        return {key: value for key, value in {**fields, **self.resource_meta}.items() if value is not None}

    def add_to(self, meta: JsonObject | None) -> JsonObject:
        """Return the `_meta` of a tool that has the interface."""
        known = (meta or {}).get("ui")
        own = {"resourceUri": self.uri, "visibility": self.visibility and list(self.visibility)}
        ui = {**(known if isinstance(known, dict) else {}), **{key: value for key, value in own.items() if value}}
        return {**(meta or {}), "ui": ui}

    def __repr__(self) -> str:
        return f"<UserInterface {self.uri!r}>"


def _check(option: Any) -> None:
    """Raise DefinitionError for what is no interface."""
    if not isinstance(option, Mapping):
        raise DefinitionError(f"ui is the path of an HTML file, a ui:// URI or a dict, not a {type(option).__name__}.")
    for key, value in option.items():
        if key not in _KEYS:
            raise DefinitionError(f"ui has {key!r}, which is no key of it. {near_misses(str(key), _KEYS)}")
        if key in _SHAPES and not isinstance(value, _SHAPES[key][0]):
            raise DefinitionError(f"{key!r} of ui is {_SHAPES[key][1]}, not a {type(value).__name__}.")
    if "html" in option and "text" in option:
        raise DefinitionError("ui has `html`, the path of a file, and `text`, the page itself: pass one of them.")
    if (uri := option.get("resourceUri")) is not None and not _URI.fullmatch(uri):
        raise DefinitionError(f"A URI of ui begins with {SCHEME!r} and has no spaces, unlike {uri[:100]!r}.")
    readers = option.get("visibility", _READERS)
    if not isinstance(readers, list | tuple) or not readers or not all(one in _READERS for one in readers):
        raise DefinitionError("'visibility' of ui is a list of 'model' and 'app', or of one of them.")
    if not any(key in option for key in ("html", "text", "resourceUri", "visibility")):
        raise DefinitionError("ui names a page: the path of an HTML file, or a ui:// URI.")


def _read(file: Any) -> str:
    """Return the text of an HTML file. Raises DefinitionError."""
    from ahvn_tools.regular_file import open_regular  # few tools have a page

    if not isinstance(file, str | os.PathLike) or Path(file).suffix.lower() not in {".html", ".htm"}:
        raise DefinitionError(f"The page of ui is an .html file, not {file!r}.")
    shown = os.fspath(file)
    try:
        with os.fdopen(open_regular(file, os.O_RDONLY), "rb") as opened:
            content = opened.read(MAX_HTML_BYTES + 1)
    except OSError as error:
        raise DefinitionError(f"The page of ui, {shown!r}, cannot be read: {error.strerror or error}.") from None
    if len(content) > MAX_HTML_BYTES:
        raise DefinitionError(f"The page of ui, {shown!r}, has more than {MAX_HTML_BYTES:,} bytes.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DefinitionError(f"The page of ui, {shown!r}, is no text in UTF-8.") from None


def resource_uri(meta: Mapping[str, Any] | None) -> str | None:
    """Return the URI of the page that the `_meta` of a tool names; None if it names none."""
    ui = None if meta is None else meta.get("ui")
    uri = ui.get("resourceUri") if isinstance(ui, Mapping) else None
    return uri if isinstance(uri, str) and _URI.fullmatch(uri) else None


def is_for_apps(meta: Mapping[str, Any] | None) -> bool:
    """Return whether the `_meta` of a tool says that interfaces alone may call it, and no model."""
    ui = None if meta is None else meta.get("ui")
    visibility = ui.get("visibility") if isinstance(ui, Mapping) else None
    return isinstance(visibility, list | tuple) and "model" not in visibility
