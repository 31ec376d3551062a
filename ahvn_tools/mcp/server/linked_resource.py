"""A resource to which a tool has referred a client, as a FastMCP resource."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable

from fastmcp.exceptions import ResourceError
from fastmcp.resources import Resource, ResourceContent, ResourceResult
from mcp_types import BlobResourceContents, ReadResourceResult
from pydantic import PrivateAttr

from ahvn_tools.errors import ToolCallError

ReadResource = Callable[[], Awaitable[ReadResourceResult]]
"""Reads one resource. Raises ToolCallError."""


class LinkedResource(Resource):
    """A resource of a server behind this one."""

    _read_linked: ReadResource = PrivateAttr()

    async def read(self) -> ResourceResult:
        """Return the contents. Raises ResourceError."""
        try:
            read = await self._read_linked()
        except ToolCallError as error:
            raise ResourceError(error.message) from None
        return ResourceResult(
            contents=[
                ResourceContent(base64.b64decode(item.blob), mime_type=item.mime_type)
                if isinstance(item, BlobResourceContents)
                else ResourceContent(item.text, mime_type=item.mime_type)
                for item in read.contents
            ]
        )


def to_fastmcp_resource(uri: str, read: ReadResource) -> LinkedResource | None:
    """Return the resource of a URI; None for a URI that FastMCP does not know as one."""
    try:
        resource = LinkedResource.model_validate({"uri": uri, "name": uri[:100]})
    except ValueError:
        return None
    resource._read_linked = read  # noqa: SLF001  # pydantic accepts no private attribute in its constructor
    return resource
