"""Functions over types of the standard library and of pydantic that have a JSON form."""

import re
from datetime import date, datetime, time, timedelta
from ipaddress import IPv4Address, IPv4Network, IPv6Address
from pathlib import Path, PurePosixPath
from re import Pattern
from uuid import UUID

from pydantic import (
    UUID4,
    AnyUrl,
    AwareDatetime,
    Base64Bytes,
    Base64Str,
    ByteSize,
    DirectoryPath,
    FilePath,
    FutureDate,
    HttpUrl,
    IPvAnyAddress,
    Json,
    JsonValue,
    NaiveDatetime,
    NonNegativeFloat,
    PastDate,
    PositiveInt,
    SecretBytes,
    SecretStr,
    StrictInt,
    StrictStr,
    conint,
    conlist,
    constr,
)

from tests.schema.signatures.collection import Collection

signature = Collection("standard_types")


@signature
def moments(day: date, moment: datetime, clock: time, span: timedelta) -> datetime: ...


@signature
def optional_day(day: date | None = None) -> date | None: ...


@signature
def moments_with_rules(aware: AwareDatetime, naive: NaiveDatetime, past: PastDate, future: FutureDate) -> None: ...


@signature
def random_identifier(identifier: UUID4) -> list[UUID4]: ...


@signature
def existing_paths(file: FilePath, folder: DirectoryPath) -> None: ...


@signature
def addresses(four: IPv4Address, six: IPv6Address, network: IPv4Network, any_kind: IPvAnyAddress) -> IPv4Address: ...


@signature
def address_of_the_web(url: AnyUrl, page: HttpUrl) -> AnyUrl: ...


@signature
def secret_text(password: SecretStr) -> bool: ...


@signature
def secret_with_default(password: SecretStr = SecretStr("unset"), key: SecretBytes | None = None) -> None: ...


@signature
def json_text(document: Json) -> str: ...


@signature
def json_text_of_numbers(document: Json[list[int]]) -> str: ...


@signature
def base64(payload: Base64Bytes, text: Base64Str) -> Base64Str: ...


@signature
def numbers_with_rules(positive: PositiveInt, weight: NonNegativeFloat, strict: StrictInt, name: StrictStr) -> int: ...


@signature
def constrained_by_call(
    number: conint(ge=1, le=9),
    word: constr(min_length=2, pattern="^[a-z]+$"),
    words: conlist(str, min_length=1),
) -> None: ...


signature.echoes(
    span=timedelta,
    unique_identifier=UUID,
    path=Path,
    pure_path=PurePosixPath,
    pattern=Pattern,
    text_pattern=re.Pattern[str],
    size_in_bytes=ByteSize,
    any_json=JsonValue,
)

SIGNATURES = signature.entries
