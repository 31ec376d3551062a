"""The middleware that a manifest can name, and the options of each that YAML can hold."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from ahvn_tools import middleware
from ahvn_tools.errors import near_misses
from ahvn_tools.loading.read_options import ReadOptions
from ahvn_tools.middleware import Middleware

Level = Literal["debug", "info", "warning", "error", "critical"]


Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ManifestModel(BaseModel):
    """A part of a manifest. Its text contains no value: one may be from the environment."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _remember_keys(cls, value: Any, info: ValidationInfo) -> Any:
        """Tell the context which keys a mapping may have, for the error about another one."""
        if isinstance(value, Mapping) and info.context is not None:
            info.context[id(value)] = list(cls.model_fields)
        return value

    def __repr_args__(self) -> list[tuple[str, Any]]:
        return []

    def fields_set(self, *names: str) -> dict[str, Any]:
        """Return those of these fields that the manifest has."""
        return {name: getattr(self, name) for name in names if name in self.model_fields_set}


class MiddlewareOptions(ManifestModel):
    """Options of one middleware."""

    def arguments(self, _options: ReadOptions) -> dict[str, Any]:
        """Return the arguments of its function. Raises SourceError for a file that is not trusted."""
        return {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}


class _Repeatable(MiddlewareOptions):
    tools: str | list[str] = []
    """The tools that may be called again, in addition to those whose annotations say so."""
    all_tools: bool = False
    """Whether all tools may be called again."""


class Cache(_Repeatable):
    """Equal calls get one result."""

    ttl: float = Field(default=300.0, gt=0)
    """For how many seconds a result is stored."""
    size: int = Field(default=1_000, ge=1)
    """How many results are stored."""
    shared: bool = False
    """Whether sessions share results."""


class KeepLarge(MiddlewareOptions):
    """Models read the beginning of large results, and the rest with `read_result` and `search_result`."""

    max_chars: int = Field(default=20_000, ge=1_000)
    """How many characters a model receives of a result."""
    folder: str | None = None
    """A folder for the results, relative to the manifest; without it, they are in memory."""
    max_bytes: int = Field(default=256 * 1024 * 1024, ge=1)
    """How many bytes all results have; the oldest are dropped first."""
    max_age: Seconds = 3600.0
    """For how many seconds a result is stored."""

    def arguments(self, options: ReadOptions) -> dict[str, Any]:
        """Return the arguments, with the path of the folder that is written."""
        given = super().arguments(options)
        return {**given, "folder": options.to_output(self.folder)} if self.folder is not None else given


class Limit(MiddlewareOptions):
    """The maximum number of calls. At least one limit is needed."""

    per_second: int | None = Field(default=None, ge=1)
    """Calls that start in any second."""
    per_minute: int | None = Field(default=None, ge=1)
    """Calls that start in any minute."""
    per_run: int | None = Field(default=None, ge=1)
    """Calls of one answer of a model."""
    per_session: int | None = Field(default=None, ge=1)
    """Calls of one session."""
    by: str | None = None
    """The state key, such as `user.id`, for each value of which the rates are counted."""
    wait: float = Field(default=0, ge=0)
    """For how many seconds a call waits to stay within a rate."""


class Log(MiddlewareOptions):
    """One line for each finished call."""

    logger: str | None = None
    """The name of the logger, `ahvn_tools.calls` by default."""
    level: Level = "info"
    """The level of the lines."""
    max_chars: int = Field(default=500, ge=1)
    """How many characters of the arguments, and of the result, are in a line."""
    results: bool = True
    """Whether the result is in the line."""
    traceback: bool = False
    """Whether the traceback of an error follows the line."""
    redact: list[str] = []
    """Regular expressions: what they match in a line is `***`."""

    def arguments(self, options: ReadOptions) -> dict[str, Any]:
        """Return the arguments, the level as a number."""
        given = super().arguments(options)
        return {**given, "level": logging.getLevelNamesMapping()[self.level.upper()]} if "level" in given else given


class Metrics(MiddlewareOptions):
    """OpenTelemetry metrics of calls."""


class Record(MiddlewareOptions):
    """Calls and their results are written to a file."""

    path: str
    """The JSONL file, relative to the manifest."""
    secret_key: str | None = None
    """At least 16 characters, from the environment: it distinguishes calls that differ in secrets."""

    def arguments(self, options: ReadOptions) -> dict[str, Any]:
        """Return the arguments, with the path of the file that is written."""
        return {**super().arguments(options), "path": options.to_output(self.path)}


class Replay(Record):
    """Calls are answered from a recording."""

    allow_changed: bool = False
    """Whether a tool may have changed since it was recorded."""

    def arguments(self, options: ReadOptions) -> dict[str, Any]:
        """Return the arguments, with the path of the file that is read."""
        options.require_readable(self.path)
        return {**MiddlewareOptions.arguments(self, options), "path": options.resolve(self.path)}


class Retry(_Repeatable):
    """Failed calls are repeated."""

    attempts: int = Field(default=3, ge=1)
    """Attempts in total."""
    codes: list[str] = ["connection", "timeout"]
    """The error codes after which a call is repeated."""
    initial_delay: float = 0.1
    """Seconds before the second attempt; then twice as long each time."""
    max_delay: float = 5.0
    """The longest delay in seconds."""
    max_elapsed: float = 45.0
    """No attempt starts later than so many seconds after the first."""


class Trace(MiddlewareOptions):
    """An OpenTelemetry span for each call."""

    content: bool = False
    """Whether the span has arguments and result."""


class Truncate(MiddlewareOptions):
    """Long results are cut for models."""

    max_chars: int = Field(default=20_000, ge=1)
    """How many characters a model receives."""
    head_ratio: float = Field(default=0.7, ge=0, le=1)
    """The part of them that is from the beginning."""


class Watch(MiddlewareOptions):
    """Calls are written to a file while someone looks, such as the page Watch of `ahvn-tools ui`."""

    path: str | None = None
    """The SQLite file, relative to the manifest; without it, the file of this user."""

    def arguments(self, options: ReadOptions) -> dict[str, Any]:
        """Return the arguments, with the path of the file that is written."""
        return {"path": options.to_output(self.path)} if self.path is not None else {}


MIDDLEWARE: Final[Mapping[str, type[MiddlewareOptions]]] = MappingProxyType(
    {
        "cache": Cache,
        "keep_large": KeepLarge,
        "limit": Limit,
        "log": Log,
        "metrics": Metrics,
        "record": Record,
        "replay": Replay,
        "retry": Retry,
        "trace": Trace,
        "truncate": Truncate,
        "watch": Watch,
    }
)
"""The options of each middleware, by the name of its function in `ahvn_tools.middleware`; `observe` has a function."""


def arguments(name: str, options: Mapping[str, Any] | MiddlewareOptions, read_options: ReadOptions) -> dict[str, Any]:
    """Return the arguments of a middleware of this package. Raises pydantic's ValidationError, and ToolSpecError."""
    model = options if isinstance(options, MiddlewareOptions) else MIDDLEWARE[name].model_validate(options)
    return model.arguments(read_options)


def build(name: str, options: Mapping[str, Any] | MiddlewareOptions, read_options: ReadOptions) -> Middleware:
    """Return a middleware of this package. Raises pydantic's ValidationError, and ToolSpecError, for its options."""
    made: Middleware = getattr(middleware, name)(**arguments(name, options, read_options))
    return made


ITEM_TITLE: Final = "A middleware"
"""The title in the JSON Schema of the models, in place of the schema itself."""


def _to_mapping(value: Any) -> Any:
    return {value: None} if isinstance(value, str) else value


def _check_item(value: dict[str, dict[str, Any] | None]) -> dict[str, dict[str, Any] | None]:
    if len(value) != 1:
        raise PydanticCustomError(
            "middleware", "write one middleware for each item of the list: its name, or its name and its options"
        )
    (name,) = value
    if ":" not in name and name not in MIDDLEWARE:
        hint = near_misses(name, MIDDLEWARE)
        raise PydanticCustomError(
            "middleware",
            "there is no middleware {name}. {hint} Name your own as `module:name`",
            {"name": repr(name), "hint": hint},
        )
    return value


MiddlewareItem = Annotated[
    dict[str, dict[str, Any] | None],
    BeforeValidator(_to_mapping),
    AfterValidator(_check_item),
    WithJsonSchema({"title": ITEM_TITLE}),
]
"""One of `ahvn_tools.middleware` by its name, such as `log` or `{retry: {attempts: 3}}`, or the import path of another,
`acme.tools:audit`, or of a function that makes one with these options: `{acme.tools:audit: {level: 2}}`."""
