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
def text() -> str: ...


@signature
def pair() -> tuple[int, Answer]: ...


@signature
def own_text_content() -> OwnContent: ...


@signature
def protocol_result_or_none() -> CallToolResult | None: ...


@signature
def enum() -> Verdict: ...


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


signature.returning(
    never=NoReturn,
    anything=Any,
    some_object=object,
    text_or_none=Optional[str],
    union=Union[int, str, list[float]],
    described_text=Annotated[str, "What it says."],
    described_number=Annotated[int, Field(description="How many.", ge=0)],
    titled_number=Annotated[int, Field(title="The Count")],
    described_object=Annotated[dict[str, int], Field(description="Counts by name.")],
    described_model=Annotated[Answer, Field(description="The answer.", title="Answered")],
    model=Answer,
    model_or_none=Answer | None,
    model_or_object=Answer | dict[str, int],
    list_of_models=list[Answer],
    list_of_optional_models=list[Answer | None],
    dict_of_models=dict[str, Answer],
    dict_of_lists=Dict[str, List[Answer]],
    bare_dict=dict,
    typing_dict=Dict,
    dict_or_list=dict[str, Any] | list[Any],
    object_with_one_property=Single,
    bare_list=list,
    typing_list=List,
    list_of_any=list[Any],
    optional_list_of_any=list[Any] | None,
    described_bare_list=Annotated[list, "Some things."],
    list_of_lists_of_any=list[list[Any]],
    bare_tuple=tuple,
    typing_tuple=Tuple,
    tuple_of_any=tuple[Any, ...],
    pair_of_any=tuple[Any, Any],
    numbers_in_tuple=tuple[float, ...],
    bare_sequence=Sequence,
    sequence_of_any=Sequence[Any],
    bare_set=set,
    set_of_any=set[Any],
    iterable_of_int=Iterable[int],
    queue=collections.deque[int],
    raw_bytes=bytes,
    bytes_or_none=bytes | None,
    described_bytes=Annotated[bytes, "A picture."],
    list_of_bytes=list[bytes],
    bytes_in_dataclass=HoldsBytes,
    bytes_by_alias=BytesAlias,
    byte_array=bytearray,
    image=Image,
    image_or_none=Image | None,
    list_of_images=list[Image],
    image_by_alias=ImageAlias,
    list_by_alias=ListAlias,
    images_and_text=list[Image | str],
    text_and_image=tuple[str, Image],
    images_by_name=dict[str, Image],
    audio=Audio,
    file=File,
    described_file=Annotated[File, "The report."],
    text_content=TextContent,
    list_of_text_content=list[TextContent],
    content_or_text=ImageContent | str,
    resource_link=ResourceLink,
    embedded_resource=EmbeddedResource | None,
    content_blocks=list[ContentBlock],
    tool_result=ToolResult,
    own_tool_result=OwnResult,
    tool_result_or_text=ToolResult | str,
    protocol_result=CallToolResult,
    plain_class=Plain,
    list_of_plain_class=list[Plain],
    plain_class_or_none=Plain | None,
    exception=ValueError,
    enum_or_none=Verdict | None,
    literal=Literal["a", "b"],
    literal_none=Literal[None],
    duration=timedelta,
)

SIGNATURES = signature.entries
