"""Recipe: what a source yields and a ToolSpec is made of. Frozen, and shared by all specs of one tool."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ahvn_tools.binding import Binding
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.schema.docstring import Docstring, parse
from ahvn_tools.schema.inputs import Inputs
from ahvn_tools.schema.output import Output

if TYPE_CHECKING:
    from fastmcp.tools import Tool

JsonObject = dict[str, Any]
Isolation = Literal["process"]

MAX_SECONDS = 1e9
"""Seconds, some thirty years: beyond it the clocks of a platform overflow."""


def is_duration(seconds: Any) -> bool:
    """Tell whether this is a number of seconds that can be waited for."""
    return isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds <= MAX_SECONDS


class Texts:
    """The texts of a tool. A docstring is parsed when one of them is first read."""

    def __init__(
        self,
        description: str | None = None,
        *,
        docstring: str | None = None,
        parameters: str | None = None,
        include_long: bool = True,
        parse_docstring: bool = True,
    ) -> None:
        """`description` wins over the docstring's; `parameters` is the docstring that describes the parameters."""
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
        """What comes back."""
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
    """Everything about a tool that binding and state do not change, but for the body itself."""

    name: str
    texts: Texts
    inputs: Inputs
    output: Output
    is_async: bool
    """Whether the body is called in an event loop: a coroutine function or an async generator function."""
    is_coroutine: bool = False
    """Whether the body is a coroutine function."""
    title: str | None = None
    tags: frozenset[str] = frozenset()
    annotations: JsonObject | None = None
    meta: JsonObject | None = None
    version: str | None = None
    icons: list[JsonObject] | None = None
    examples: Any = None
    """The object that was given."""
    timeout: float | None = None
    """Seconds."""
    run_in_thread: bool = True
    isolation: Isolation | None = None
    """`"process"`: the body runs in a worker process."""
    is_repeatable: bool | None = None
    """Whether the host says that a call may be made twice; None: the annotations say, which are the host's own."""
    source: str | None = None
    """The code the tool was made from, when it was made from code."""
    tool: Tool | None = None
    """The FastMCP tool the spec was made from."""
    bindings: Mapping[str, Binding] = field(default_factory=dict)
    """What is bound from the start."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options as they were given."""
    rebuild: Callable[..., tuple[ToolTemplate, Callable[..., Any]]]
    """The source's function that makes the recipe again on the other side of a pickle …"""
    rebuild_arguments: Mapping[str, Any] = field(default_factory=dict)
    """… from the body, the options, the bindings, and these."""

    def definition(self, hidden: frozenset[str]) -> ToolDefinition:
        """Return what a model is shown when the parameters in `hidden` are bound."""
        names = frozenset(
            self.inputs.parameters[name].property_name for name in hidden if name in self.inputs.parameters
        )
        return ToolDefinition(
            name=self.name,
            title=self.title,
            description=self.texts.description,
            input_schema=self.inputs.schema(hidden),
            output_schema=self.output.schema,
            tags=self.tags,
            annotations=self.annotations,
            examples=_visible_examples(self.examples, names),
            meta=self.meta,
            version=self.version,
            icons=self.icons,
            returns=self.texts.returns,
            usage=self.texts.usage,
        )


def _visible_examples(examples: Any, hidden: frozenset[str]) -> list[JsonObject] | None:
    if not examples:
        return None
    return [_visible_example(example, hidden) for example in examples]


def _visible_example(example: Any, hidden: frozenset[str]) -> JsonObject:
    from pydantic_core import to_jsonable_python

    whole = example if "inputs" in example and example.keys() <= {"inputs", "expected", "note"} else {"inputs": example}
    inputs = {name: value for name, value in whole["inputs"].items() if name not in hidden}
    shown: JsonObject = to_jsonable_python({**whole, "inputs": inputs})
    return shown
