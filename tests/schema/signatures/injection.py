"""Functions that ask for what FastMCP injects; such parameters are in no schema."""

from fastmcp.dependencies import CurrentContext, Depends
from fastmcp.server.context import Context

from tests.schema.signatures.collection import Collection

signature = Collection("injection")


def connection() -> str:
    """An expensive dependency."""
    return "connection"


@signature
def context(value: int, ctx: Context) -> int: ...


@signature
async def optional_context(value: int, ctx: Context | None = None) -> int: ...


@signature
def current_context(value: int, ctx: Context = CurrentContext()) -> int: ...


@signature
def dependency(value: int, database: str = Depends(connection)) -> int:
    """Read a value.

    Args:
        value: Which one.
        database: Never shown.
    """


@signature
def only_context(ctx: Context) -> dict[str, int]: ...


SIGNATURES = signature.entries
