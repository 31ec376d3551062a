"""Functions that use the types of this package."""

from typing import Annotated

from pydantic import Field

from ahvn_tools import Secret, ToolResult
from tests.schema.signatures.collection import Collection

signature = Collection("own_types")


@signature
def secret_parameter(token: Annotated[str, Secret]) -> str: ...


@signature
def secret_described(token: Annotated[str, Secret, Field(description="Internal.")] = "none") -> str: ...


@signature
def result() -> ToolResult: ...


@signature
def result_or_text() -> ToolResult | str: ...


SIGNATURES = signature.entries
