"""The pages that hosts show for the tools of a served toolkit: its own, and those of servers behind it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from mcp_types import ReadResourceResult, TextResourceContents

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import ToolCallError, ToolkitError, ToolTimeoutError
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.imported_server import ImportedServer
from ahvn_tools.toolkit.visibility import StoreView
from ahvn_tools.user_interface import HTML_TYPE, RESOURCE_KEYS, SCHEME, UserInterface, resource_uri

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class ServedInterface:
    """The page of one tool."""

    entry: Entry
    uri: str
    """Under which it is served: another one than the tool's own, where a page of somebody else has that."""
    own_uri: str

    @property
    def own(self) -> UserInterface | None:
        """The interface of a tool that has the option `ui`."""
        interface = self.entry.spec.compiled.template.options.get("ui")
        return interface if isinstance(interface, UserInterface) and interface.uri == self.own_uri else None

    @property
    def meta(self) -> dict[str, Any] | None:
        """The `_meta` of the resource."""
        return {"ui": self.own.resource_meta} if self.own is not None and self.own.resource_meta else None

    async def read(self, view: StoreView, state: Mapping[str, Any]) -> ReadResourceResult:
        """Return the page, from its server with the credentials of a state. Raises ToolCallError."""
        if self.own is not None and self.own.html is not None:
            content = TextResourceContents(uri=self.uri, mime_type=HTML_TYPE, text=self.own.html, _meta=self.meta)
            return ReadResourceResult(contents=[content])
        return await read_from_server(view, self.entry, self.own_uri, state)


def find_interfaces(view: StoreView) -> dict[str, ServedInterface]:
    """Return the pages of the tools that match the selections of a view, by the URIs under which they are served.

    A page that somebody else serves to clients is not among them.
    """
    owners: dict[str, str | None] = {}
    found: dict[str, ServedInterface] = {}
    for entry in list(view.store.entries.values()):
        own_uri = resource_uri(entry.spec.compiled.template.meta)
        if own_uri is None:
            continue
        uri = own_uri
        while owners.setdefault(uri, entry.server_name) != entry.server_name:
            uri = f"{SCHEME}{quote(entry.server_name or 'toolkit', safe='')}/{uri.removeprefix(SCHEME)}"
        interface = ServedInterface(entry, uri, own_uri)
        own, servers = interface.own, view.store.imported_servers
        has_page = own.html is not None if own is not None else entry.server_name in servers
        if has_page and view.is_selected(entry):
            found.setdefault(uri, interface)
    return found


async def list_pages(view: StoreView) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the URI and the fields of each page; no metadata of a server that does not answer, which is logged."""
    pages = find_interfaces(view)
    names = list({page.entry.server_name: None for page in pages.values() if page.own is None})
    listings = await asyncio.gather(*(_list_metas(view.store.imported_servers[name or ""]) for name in names))
    metas: dict[str | None, Mapping[str, Any]] = dict(zip(names, listings, strict=True))
    return [
        (uri, {"mime_type": HTML_TYPE, "meta": page.meta or metas.get(page.entry.server_name, {}).get(page.own_uri)})
        for uri, page in pages.items()
    ]


async def _list_metas(imported: ImportedServer) -> dict[str, Any]:
    """Return what a server lists for the host about its pages, by URI."""
    try:
        resources = await imported.server.alist_resources()
    except (ToolCallError, ToolkitError) as error:
        log.warning("The resources of the MCP server %r were not listed: %s", imported.server.name, error)
        return {}
    found = {str(one.uri): (one.meta or {}).get("ui") for one in resources}
    return {
        uri: {"ui": {key: ui[key] for key in RESOURCE_KEYS if key in ui}}
        for uri, ui in found.items()
        if isinstance(ui, dict)
    }


def with_served_uris(
    definitions: list[tuple[Entry, ToolDefinition]], interfaces: Mapping[str, ServedInterface]
) -> list[ToolDefinition]:
    """Return definitions in which the tools name the URIs under which their pages are served."""
    pages = interfaces.values()
    changed = {(page.entry.server_name, page.own_uri): page.uri for page in pages if page.uri != page.own_uri}
    served = []
    for entry, definition in definitions:
        meta: Any = definition.meta if changed and entry.server_name is not None else None
        if (uri := changed.get((entry.server_name, resource_uri(meta) or ""))) is not None:
            meta = {**meta, "ui": {**meta["ui"], "resourceUri": uri}}
            definition = replace(definition, meta=meta)  # noqa: PLW2901  # the same tool
        served.append(definition)
    return served


async def read_from_server(view: StoreView, entry: Entry, uri: str, state: Mapping[str, Any]) -> ReadResourceResult:
    """Return a resource of the server that a tool is from. Raises ToolCallError."""
    imported = view.store.imported_servers[entry.server_name or ""]
    try:
        async with asyncio.timeout(imported.timeout):
            resource: ReadResourceResult = await imported.server.aread_resource(uri, state)
            return resource
    except TimeoutError:
        raise ToolTimeoutError(f"Reading the resource took longer than {imported.timeout:g} s.") from None
