"""Formats: how each provider writes tools, calls and results.

A format is a module (or any object) with the functions of `Format`: `export`, `calls`, `message`, `results` and
`choice`; a format of another package may lack `message`. `get` returns one by name. Another package adds its own with
`register`, or with an entry point of the group `ahvn_tools.formats`, which is loaded at its first use. `detection`
finds out which format an answer is in.

For `Toolkit.converse` a format has `turn(response, calls)`, which returns a Turn, and may have
`add_user_text(messages, text)`, if a text of the user is not `{"role": "user", "content": text}`.

A format whose provider runs programs of a model also has the function `continuation(response)`, which returns a
Continuation. A format may have `refusal(definition, callers, **options)`: why an export with these callers and options
raises because of a tool. The export of a toolkit leaves out such tools of MCP servers.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, cast, get_args

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import ToolLookupError, ToolSpecError, near_misses, unknown_options
from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import ToolCall, ToolResult
from ahvn_tools.schema.dialects.finding import Finding

if TYPE_CHECKING:
    from ahvn_tools.formats.turn import Model, Turn, Usage

__all__ = [
    "Finding", "Format", "FormatName", "Model", "Turn", "Usage", "choose_format", "get", "portability", "register",
]  # fmt: skip

FormatName: TypeAlias = Literal[
    "anthropic", "bedrock", "gemini", "langchain", "mcp", "mistral", "ollama", "openai", "openai-responses", "prompt"
]
"""The names of the formats of this package."""

BUILT_IN: Final[tuple[str, ...]] = get_args(FormatName)
"""The formats of this package."""

ENTRY_POINT_GROUP: Final = "ahvn_tools.formats"
"""The group of the entry points with which other packages add formats."""

_CLASSES: Final = ("Model", "Turn", "Usage")
_REQUIRED_FUNCTIONS: Final = ("export", "calls", "results", "choice")


class Format(Protocol):
    """The functions of a format. They never change their arguments, and return new objects."""

    def export(
        self, definitions: Iterable[ToolDefinition], *, strict: bool = False, **options: Any
    ) -> list[JsonObject]:
        """Return the tools as a request contains them, in order."""
        ...

    def calls(self, response: Any, definitions: Iterable[ToolDefinition] = ()) -> list[ToolCall]:
        """Return the calls in a response. With `definitions`, they have the tools' own names."""
        ...

    def message(self, calls: Iterable[ToolCall], *, text: str | None = None) -> list[JsonObject]:
        """Return the model's turn with this text and these calls, to extend a history with: the inverse of `calls`.

        `calls(message(calls), definitions)` are the same calls: their names, their arguments, and the ids and provider
        data that the format contains. Names are wire names. Without text and calls, the list is empty.
        """
        ...

    def results(self, pairs: Iterable[tuple[ToolCall, ToolResult]]) -> list[JsonObject]:
        """Return the messages with the results of the calls."""
        ...

    def choice(
        self, tools: str | Sequence[str], *, parallel: bool | None = None, definitions: Iterable[ToolDefinition] = ()
    ) -> JsonObject:
        """Return the request's fields for `"auto"`, `"none"`, `"required"`, a tool's name, or a list of names."""
        ...


_registered: dict[str, Format] = {}


def register(name: str, module: Any) -> None:
    """Add a format under a name. Raises ToolSpecError for a name in use, or if a function is missing.

    >>> from ahvn_tools import formats
    >>> from ahvn_tools.formats import openai
    >>> formats.register("my-proxy", openai)
    >>> formats.get("my-proxy") is openai
    True
    """
    missing = [function for function in _REQUIRED_FUNCTIONS if not callable(getattr(module, function, None))]
    if missing:
        raise ToolSpecError(f"{module!r} is no format: it lacks {', '.join(missing)}. Add the missing functions.")
    if name in BUILT_IN or _registered.get(name, module) is not module:
        owner = "the package" if name in BUILT_IN else repr(_registered[name])
        raise ToolSpecError(f"The format name {name!r} belongs to {owner}. Register {module!r} under another name.")
    _registered[name] = module


def get(name: FormatName | str) -> Format:
    """Return the format with this name. Raises ToolLookupError with similar names."""
    if name in _registered:
        return _registered[name]
    if name in BUILT_IN:
        return _built_in(name)
    from importlib.metadata import entry_points

    # This opens files of every installed package, so only an unknown name does it.
    points = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
    if name not in points:
        known = sorted({*BUILT_IN, *_registered, *points})
        raise ToolLookupError(f"There is no format {name!r}. {near_misses(name, known)}")
    register(name, points[name].load())
    return _registered[name]


def __getattr__(name: str) -> Any:
    """Import a format of this package, or a class, at its first use (PEP 562): `formats.openai`."""
    if name in _CLASSES:
        return getattr(importlib.import_module(f"{__name__}.turn"), name)
    if name.replace("_", "-") not in BUILT_IN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _built_in(name)


@functools.cache
def _built_in(name: str) -> Format:
    return cast("Format", importlib.import_module(f"{__name__}.{name.replace('-', '_')}"))


def export(
    name: FormatName | str, definitions: Iterable[ToolDefinition], options: Mapping[str, Any]
) -> list[JsonObject]:
    """Return the export in a format. An unknown option is a TypeError that names similar ones."""
    function = get(name).export
    try:
        return function(definitions, **options)
    except TypeError as error:
        parameters = inspect.signature(function).parameters.values()
        is_open = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        known = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
        if not is_open and (unknown := unknown_options(options, known)):
            raise TypeError(f"The format {name!r}: {unknown}") from error
        raise


def portability(definition: ToolDefinition) -> dict[str, list[Finding]]:
    """Return, for each format, its findings about a tool: what an export changes, loses, or cannot make strict.

    An empty list means that the tool is exported unchanged, and strict where the provider has strict tools. A finding
    with an `effect` means that the exported schema accepts more or less than the tool does, at `place`. A registered
    format is included if it has a function `findings(definition)`.

    >>> from ahvn_tools import ToolDefinition, formats
    >>> findings = formats.portability(ToolDefinition(name="notes.add"))["openai"]
    >>> [(finding.severity, finding.problem) for finding in findings]
    [('note', "the model sees the name 'notes_add_e1253ccd'")]
    """
    modules: dict[str, Any] = {**{name: get(name) for name in BUILT_IN}, **_registered}
    return {name: module.findings(definition) for name, module in modules.items() if hasattr(module, "findings")}


def choose_format(
    client: Any, native: FormatName | str, *, function_calling: bool = True, fallback_to_structured_output: bool = True
) -> str:
    """Return the format for a model: `native` if the model has function calling, else `"prompt"`.

    With `function_calling`, `client.supports_function_calling()` decides; its exceptions are raised. Raises
    ToolLookupError for an unknown `native`, and ToolSpecError when both ways are disabled or impossible, or the client
    has no such method.

    >>> from types import SimpleNamespace
    >>> from ahvn_tools import formats
    >>> formats.choose_format(SimpleNamespace(supports_function_calling=lambda: False), "openai")
    'prompt'
    """
    get(native)
    if function_calling and _supports_function_calling(client):
        return native
    if fallback_to_structured_output:
        return "prompt"
    if function_calling:
        raise ToolSpecError(
            f"The model of {type(client).__name__!r} has no function calling, and the fallback is disabled. "
            "Set fallback_to_structured_output=True, or use another model."
        )
    raise ToolSpecError("Both ways are disabled. Set function_calling=True or fallback_to_structured_output=True.")


def _supports_function_calling(client: Any) -> bool:
    method = f"supports_function_calling() of {type(client).__name__!r}"
    check = getattr(client, "supports_function_calling", None)
    if not callable(check):
        raise ToolSpecError(f"There is no {method}. Add that method, or set function_calling=False.")
    answer = check()
    if isinstance(answer, bool):
        return answer
    if not inspect.isawaitable(answer):
        raise ToolSpecError(f"{method} returned {type(answer).__name__}. Return True or False.")
    if inspect.iscoroutine(answer):
        answer.close()  # avoids the warning that it was never awaited
    raise ToolSpecError(f"{method} is asynchronous. Await it first, and pass its result as function_calling.")
