"""ToolTemplate: what a source returns and a ToolSpec is made from. Frozen, and shared by all specs of one tool."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic_core import to_jsonable_python

from ahvn_tools.binding import Binding
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.docstring import Docstring, parse
from ahvn_tools.schema.inputs import Inputs
from ahvn_tools.schema.output import Output

if TYPE_CHECKING:
    from fastmcp.tools import Tool

Isolation = Literal["process"]

MAX_SECONDS = 1e9
"""The longest duration in seconds, about thirty years; longer ones overflow the clock of some platforms."""


def is_duration(seconds: Any) -> bool:
    """Return whether a value is a number of seconds that a timer accepts."""
    return isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds <= MAX_SECONDS


class Texts:
    """The texts of a tool. A docstring is parsed at the first access."""

    def __init__(
        self,
        description: str | None = None,
        *,
        docstring: str | None = None,
        parameters: str | None = None,
        include_long: bool = True,
        parse_docstring: bool = True,
    ) -> None:
        """`description` replaces the docstring's; `parameters` is the docstring that describes the parameters."""
        self._description = description
        self._docstring = docstring
        self._parameters = parameters if parameters is not None else docstring
        self._include_long = include_long
        self._parses_docstring = parse_docstring

    @property
    def description(self) -> str:
        """What the tool does."""
        if self._description is not None:
            return self._description
        if not self._parses_docstring:
            return (self._docstring or "").strip()
        return self._parsed_docstring.description(include_long=self._include_long)

    @property
    def parameters(self) -> Mapping[str, str]:
        """What each parameter means."""
        return self._parsed_parameters.parameters if self._parses_docstring else {}

    @property
    def returns(self) -> str:
        """What the return value is."""
        return self._parsed_parameters.returns if self._parses_docstring else ""

    @property
    def usage(self) -> str:
        """Example texts."""
        return self._parsed_parameters.usage if self._parses_docstring else ""

    @functools.cached_property
    def _parsed_docstring(self) -> Docstring:
        return parse(self._docstring)

    @functools.cached_property
    def _parsed_parameters(self) -> Docstring:
        return self._parsed_docstring if self._parameters is self._docstring else parse(self._parameters)


@dataclass(frozen=True, kw_only=True)
class ToolTemplate:
    """All parts of a tool that do not depend on bindings and state, except the body."""

    name: str
    texts: Texts
    inputs: Inputs
    output: Output
    is_async: bool
    """Whether the body runs in an event loop: a coroutine function or an async generator function."""
    is_coroutine: bool = False
    """Whether the body is a coroutine function."""
    title: str | None = None
    tags: frozenset[str] = frozenset()
    annotations: JsonObject | None = None
    meta: JsonObject | None = None
    version: str | None = None
    icons: list[JsonObject] | None = None
    examples: Any = None
    """The original object of the option."""
    timeout: float | None = None
    """Seconds."""
    run_in_thread: bool = True
    isolation: Isolation | None = None
    """`"process"`: the body runs in a worker process."""
    is_repeatable: bool | None = None
    """Whether a call may be repeated; None: its annotations, which are the host's own, decide."""
    source: str | None = None
    """The source code that the tool was made from, or None."""
    tool: Tool | None = None
    """The FastMCP tool that the spec was made from, or None."""
    bindings: Mapping[str, Binding] = field(default_factory=dict)
    """The initial bindings."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The unchanged options."""
    rebuild: Callable[..., tuple[ToolTemplate, Callable[..., Any]]]
    """The source's function that builds template and body again when a pickle is loaded …"""
    rebuild_arguments: Mapping[str, Any] = field(default_factory=dict)
    """… from the body, the options, the bindings, and these."""

    def definition(self, hidden: frozenset[str]) -> ToolDefinition:
        """Return what a model sees if the parameters in `hidden` are bound."""
        parameters = self.inputs.parameters
        hidden_properties = {parameters[name].property_name for name in hidden if name in parameters}
        return ToolDefinition(
            name=self.name,
            title=self.title,
            description=self.texts.description,
            input_schema=self.inputs.schema(hidden),
            output_schema=self.output.schema,
            tags=self.tags,
            annotations=self.annotations,
            examples=_visible_examples(self.examples, hidden_properties),
            meta=self.meta,
            version=self.version,
            icons=self.icons,
            returns=self.texts.returns,
            usage=self.texts.usage,
        )


def _visible_examples(examples: Any, hidden: set[str]) -> list[JsonObject] | None:
    return [_visible_example(example, hidden) for example in examples] if examples else None


def _visible_example(example: Any, hidden: set[str]) -> JsonObject:
    is_full = "inputs" in example and example.keys() <= {"inputs", "expected", "note"}
    full = example if is_full else {"inputs": example}
    inputs = {name: value for name, value in full["inputs"].items() if name not in hidden}
    visible: JsonObject = to_jsonable_python({**full, "inputs": inputs})
    return visible
