"""Formats: how tools, calls and results are written down for one provider. Siblings with the same four functions.

A format is a module (or any object) with `export`, `calls`, `results` and `choice`; `Format` says what they take and
give. `get` finds one by name. Another package adds its own with `register`, or with an entry point of the group
`ahvn_tools.formats`, which is loaded when it is first asked for.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol, cast

from ahvn_tools.definition import JsonObject, ToolDefinition
from ahvn_tools.errors import ToolLookupError, ToolSpecError, near_misses
from ahvn_tools.results import ToolCall, ToolResult
from ahvn_tools.schema.dialects.finding import Finding as Finding

BUILT_IN: Final = ("anthropic", "bedrock", "gemini", "mcp", "mistral", "ollama", "openai", "openai-responses", "prompt")
"""The formats that come with the package."""

ENTRY_POINT_GROUP: Final = "ahvn_tools.formats"
"""The group of entry points under which other packages name theirs."""

_REQUIRED_FUNCTIONS: Final = ("export", "calls", "results", "choice")


class Format(Protocol):
    """What a format can do. It never changes what it is given, and hands out fresh objects."""

    def export(
        self, definitions: Iterable[ToolDefinition], *, strict: bool = False, **options: Any
    ) -> list[JsonObject]:
        """Return the tools as a request takes them, in their order."""
        ...

    def calls(self, response: Any, definitions: Iterable[ToolDefinition] = ()) -> list[ToolCall]:
        """Return the calls that an answer holds. With `definitions`, they come back under the tools' own names."""
        ...

    def results(self, pairs: Iterable[tuple[ToolCall, ToolResult]]) -> list[JsonObject]:
        """Return the messages that answer the calls."""
        ...

    def choice(
        self, tools: str | Sequence[str], *, parallel: bool | None = None, definitions: Iterable[ToolDefinition] = ()
    ) -> JsonObject:
        """Return the request's fields for `"auto"`, `"none"`, `"required"`, a tool's name, or a list of names."""
        ...


_registered: dict[str, Format] = {}


def register(name: str, module: Any) -> None:
    """Add a format under a name. Raises ToolSpecError for a name in use, or for what is no format.

    >>> from ahvn_tools import formats
    >>> from ahvn_tools.formats import openai
    >>> formats.register("my-proxy", openai)
    >>> formats.get("my-proxy") is openai
    True
    """
    missing = [function for function in _REQUIRED_FUNCTIONS if not callable(getattr(module, function, None))]
    if missing:
        raise ToolSpecError(f"{module!r} is no format: it lacks {', '.join(missing)}. Give it all four functions.")
    if name in BUILT_IN or _registered.get(name, module) is not module:
        owner = "the package" if name in BUILT_IN else repr(_registered[name])
        raise ToolSpecError(f"The format name {name!r} belongs to {owner}. Register {module!r} under another name.")
    _registered[name] = module


def get(name: str) -> Format:
    """Return the format of this name. Raises ToolLookupError with the names that are near it."""
    if name in _registered:
        return _registered[name]
    if name in BUILT_IN:
        return cast("Format", importlib.import_module(f"{__name__}.{name.replace('-', '_')}"))
    offered = _find_entry_points()
    if name not in offered:
        known = sorted({*BUILT_IN, *_registered, *offered})
        raise ToolLookupError(f"There is no format {name!r}. {near_misses(name, known)}")
    register(name, offered[name].load())
    return _registered[name]


def portability(definition: ToolDefinition) -> dict[str, list[Finding]]:
    """Return, for each format, what it finds about a tool: what it says in another form, loses, or cannot make strict.

    An empty list means that the tool goes out as it is, strict too where there is strict. A format that another package
    registered is among them when it has a function `findings(definition)`.

    >>> from ahvn_tools import ToolDefinition, formats
    >>> found = formats.portability(ToolDefinition(name="notes.add"))["openai"]
    >>> [(finding.severity, finding.problem) for finding in found]
    [('note', "the model sees the name 'notes_add_e1253ccd'")]
    """
    from ahvn_tools.formats.rendering.portability import findings

    found = {name: findings(name, definition) for name in BUILT_IN}
    for name, module in _registered.items():
        if callable(own := getattr(module, "findings", None)):
            found[name] = own(definition)
    return found


def choose_format(
    client: Any, native: str, *, function_calling: bool = True, fallback_to_structured_output: bool = True
) -> str:
    """Return the format to speak with a model: `native` where it has function calling, else `"prompt"`.

    `client.supports_function_calling()` tells whether it has; it is not asked when `function_calling` is off. What it
    raises is raised. Raises ToolLookupError for an unknown `native`, and ToolSpecError when neither way is open or the
    client cannot tell.

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
            f"The model of {type(client).__name__!r} has no function calling, and the fallback is off. "
            "Set fallback_to_structured_output=True, or use another model."
        )
    raise ToolSpecError("Both ways are off. Set function_calling=True or fallback_to_structured_output=True.")


def _supports_function_calling(client: Any) -> bool:
    owner = type(client).__name__
    ask = getattr(client, "supports_function_calling", None)
    if not callable(ask):
        raise ToolSpecError(
            f"{owner!r} cannot tell whether its model has function calling. "
            "Give it a method supports_function_calling(), or set function_calling=False."
        )
    told = ask()
    if isinstance(told, bool):
        return told
    if inspect.isawaitable(told):
        if inspect.iscoroutine(told):
            told.close()  # nobody will await it
        raise ToolSpecError(
            f"supports_function_calling() of {owner!r} is asynchronous. "
            "Await it before, and pass what it gives as function_calling."
        )
    raise ToolSpecError(
        f"supports_function_calling() of {owner!r} gave {type(told).__name__}. Let it return True or False."
    )


def _find_entry_points() -> dict[str, Any]:
    """Return the entry points by name. Reading them opens files of every installed package, so only a miss does it."""
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
