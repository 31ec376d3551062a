"""Functions with all kinds of return annotations."""

import collections
from collections.abc import Awaitable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Dict, List, Literal, NoReturn, Optional, Tuple, Union

from fastmcp.tools import ToolResult
from fastmcp.utilities.types import Audio, File, Image
from mcp_types import CallToolResult, ContentBlock, EmbeddedResource, ImageContent, ResourceLink, TextContent
from pydantic import BaseModel, Field, SecretStr
from typing_extensions import TypeAliasType, TypedDict

from tests.schema.signatures.collection import Collection

signature = Collection("returns")


class Answer(BaseModel):
    """What came out."""

    text: str
    score: float = Field(0.0, description="How sure we are.")


class Verdict(Enum):
    YES = "yes"
    NO = "no"


class Single(TypedDict):
    only: int


class OwnResult(ToolResult):
    pass


class OwnContent(TextContent):
    pass


class Plain:
    """Has no JSON form."""


@dataclass
class HoldsBytes:
    payload: bytes


ImageAlias = TypeAliasType("ImageAlias", Image)
BytesAlias = TypeAliasType("BytesAlias", bytes)
ListAlias = TypeAliasType("ListAlias", list)


@signature
def not_annotated(): ...


@signature
def none() -> None: ...


@signature
def never() -> NoReturn: ...


@signature
def anything() -> Any: ...


@signature
def some_object() -> object: ...


@signature
def text() -> str: ...


@signature
def text_or_none() -> Optional[str]: ...


@signature
def union() -> Union[int, str, list[float]]: ...


@signature
def described_text() -> Annotated[str, "What it says."]: ...


@signature
def described_number() -> Annotated[int, Field(description="How many.", ge=0)]: ...


@signature
def titled_number() -> Annotated[int, Field(title="The Count")]: ...


@signature
def described_object() -> Annotated[dict[str, int], Field(description="Counts by name.")]: ...


@signature
def described_model() -> Annotated[Answer, Field(description="The answer.", title="Answered")]: ...


@signature
def model() -> Answer: ...


@signature
def model_or_none() -> Answer | None: ...


@signature
def model_or_object() -> Answer | dict[str, int]: ...


@signature
def list_of_models() -> list[Answer]: ...


@signature
def list_of_optional_models() -> list[Answer | None]: ...


@signature
def dict_of_models() -> dict[str, Answer]: ...


@signature
def dict_of_lists() -> Dict[str, List[Answer]]: ...


@signature
def bare_dict() -> dict: ...


@signature
def typing_dict() -> Dict: ...


@signature
def dict_or_list() -> dict[str, Any] | list[Any]: ...


@signature
def object_with_one_property() -> Single: ...


@signature
def bare_list() -> list: ...


@signature
def typing_list() -> List: ...


@signature
def list_of_any() -> list[Any]: ...


@signature
def optional_list_of_any() -> list[Any] | None: ...


@signature
def described_bare_list() -> Annotated[list, "Some things."]: ...


@signature
def list_of_lists_of_any() -> list[list[Any]]: ...


@signature
def bare_tuple() -> tuple: ...


@signature
def typing_tuple() -> Tuple: ...


@signature
def tuple_of_any() -> tuple[Any, ...]: ...


@signature
def pair_of_any() -> tuple[Any, Any]: ...


@signature
def pair() -> tuple[int, Answer]: ...


@signature
def numbers_in_tuple() -> tuple[float, ...]: ...


@signature
def bare_sequence() -> Sequence: ...


@signature
def sequence_of_any() -> Sequence[Any]: ...


@signature
def bare_set() -> set: ...


@signature
def set_of_any() -> set[Any]: ...


@signature
def iterable_of_int() -> Iterable[int]: ...


@signature
def queue() -> collections.deque[int]: ...


@signature
def raw_bytes() -> bytes: ...


@signature
def bytes_or_none() -> bytes | None: ...


@signature
def described_bytes() -> Annotated[bytes, "A picture."]: ...


@signature
def list_of_bytes() -> list[bytes]: ...


@signature
def bytes_in_dataclass() -> HoldsBytes: ...


@signature
def bytes_by_alias() -> BytesAlias: ...


@signature
def byte_array() -> bytearray: ...


@signature
def image() -> Image: ...


@signature
def image_or_none() -> Image | None: ...


@signature
def list_of_images() -> list[Image]: ...


@signature
def image_by_alias() -> ImageAlias: ...


@signature
def list_by_alias() -> ListAlias: ...


@signature
def images_and_text() -> list[Image | str]: ...


@signature
def text_and_image() -> tuple[str, Image]: ...


@signature
def images_by_name() -> dict[str, Image]: ...


@signature
def audio() -> Audio: ...


@signature
def file() -> File: ...


@signature
def described_file() -> Annotated[File, "The report."]: ...


@signature
def text_content() -> TextContent: ...


@signature
def list_of_text_content() -> list[TextContent]: ...


@signature
def own_text_content() -> OwnContent: ...


@signature
def content_or_text() -> ImageContent | str: ...


@signature
def resource_link() -> ResourceLink: ...


@signature
def embedded_resource() -> EmbeddedResource | None: ...


@signature
def content_blocks() -> list[ContentBlock]: ...


@signature
def tool_result() -> ToolResult: ...


@signature
def own_tool_result() -> OwnResult: ...


@signature
def tool_result_or_text() -> ToolResult | str: ...


@signature
def protocol_result() -> CallToolResult: ...


@signature
def protocol_result_or_none() -> CallToolResult | None: ...


@signature
def plain_class() -> Plain: ...


@signature
def list_of_plain_class() -> list[Plain]: ...


@signature
def plain_class_or_none() -> Plain | None: ...


@signature
def exception() -> ValueError: ...


@signature
def enum() -> Verdict: ...


@signature
def enum_or_none() -> Verdict | None: ...


@signature
def literal() -> Literal["a", "b"]: ...


@signature
def literal_none() -> Literal[None]: ...


@signature
def duration() -> timedelta: ...


@signature
def days() -> dict[date, Decimal]: ...


@signature
def secret() -> SecretStr: ...


@signature
def awaitable() -> Awaitable[int]: ...


@signature
def coroutine() -> Coroutine[Any, Any, Answer]: ...


@signature
async def async_model() -> Answer: ...


@signature
async def async_none() -> None: ...


SIGNATURES = signature.entries
