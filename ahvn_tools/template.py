"""ToolTemplate: what a source returns and a ToolSpec is made from. Frozen, and shared by all specs of one tool."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ahvn_tools.binding import Binding
from ahvn_tools.errors import DefinitionError, InvalidParametersError, near_misses
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.argument_changes import ArgumentChanges
from ahvn_tools.schema.docstring import Texts
from ahvn_tools.schema.inputs import Inputs
from ahvn_tools.schema.output import Output
from ahvn_tools.settings import ToolSettings
from ahvn_tools.state import copy_containers

if TYPE_CHECKING:
    from fastmcp.tools import Tool


def _rename_inputs(example: Mapping[str, Any], renames: Mapping[str, str]) -> JsonObject:
    """Return a sample call with the new names of its arguments."""
    if is_full_example(example):
        return {**example, "inputs": {renames.get(name, name): value for name, value in example["inputs"].items()}}
    return {renames.get(name, name): value for name, value in example.items()}


def is_full_example(example: Mapping[str, Any]) -> bool:
    """Return whether a sample call is written as `{"inputs": …}`, and not as the inputs alone."""
    return "inputs" in example and example.keys() <= {"inputs", "expected", "note"}


def validate_examples(tool: str, examples: Iterable[Mapping[str, Any]] | None, inputs: Inputs) -> None:
    """Raise DefinitionError for an example whose arguments the tool refuses.

    An example may leave out required parameters, which may be bound later.
    """
    for number, example in enumerate(examples or (), start=1):
        arguments = example["inputs"] if is_full_example(example) else example
        named = {p.name for p in inputs.parameters.values() if p.name in arguments or p.property_name in arguments}
        without_schema = inputs.parameters_without_schema
        hidden = frozenset(inputs.parameters.keys() - (named - without_schema))
        try:
            inputs.validator(hidden)({name: value for name, value in arguments.items() if name not in without_schema})
        except InvalidParametersError as error:
            problem = _find_unknown(arguments, inputs) or str(error)
            raise DefinitionError(f"Example {number} of {tool!r} is no call of it: {problem}") from None


def _find_unknown(arguments: Mapping[str, Any], inputs: Inputs) -> str | None:
    """Return the message about an argument that is no parameter."""
    known = [parameter.property_name for parameter in inputs.parameters.values()]
    for name in arguments:
        if name not in known and name not in inputs.parameters:
            return f"there is no parameter {name!r}. {near_misses(str(name), known)}"
    return None


@dataclass(frozen=True, kw_only=True, repr=False, slots=True)
class ToolTemplate:
    """All parts of a tool that do not depend on bindings and state, except the body."""

    name: str
    texts: Texts
    inputs: Inputs
    output: Output
    is_async: bool
    """Whether the body runs in an event loop: a coroutine function or an async generator function."""
    settings: ToolSettings
    """How its calls run."""
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
    is_external: bool = False
    """Whether the body is never called: the result of a call is supplied from outside."""
    is_movable: bool = True
    """Whether the body can run in another process: not if it runs in MCP or FastMCP."""
    takes_private_names: bool = False
    """Whether the body takes, as its first argument, the names of the other arguments that are bound or secret."""
    is_repeatable: bool | None = None
    """Whether a call may be repeated; None: its annotations, which are the host's own, decide."""
    source: str | None = None
    """The source code that the tool was made from, or None."""
    source_function: str | None = None
    """The name of the function in that code; None: the code needs other names, too."""
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

    def with_options(
        self, options: Mapping[str, Any], body: Callable[..., Any], bindings: Mapping[str, Binding]
    ) -> ToolTemplate:
        """Return the template of the same tool with more options, and with these bindings as its initial ones."""
        kept = {"timeout": self.settings.timeout, **self.options}
        if options.get("arguments"):
            options, bindings = self._change_arguments(options, bindings)
        template, _ = self.rebuild(body, {**kept, **options}, bindings=bindings, **self.rebuild_arguments)
        return template

    def _change_arguments(
        self, options: Mapping[str, Any], bindings: Mapping[str, Binding]
    ) -> tuple[Mapping[str, Any], Mapping[str, Binding]]:
        """Return options with all changes of arguments, and the bindings by the new names."""
        later = ArgumentChanges.parse(options["arguments"])
        for name in later.by_name:
            if name in bindings and bindings[name].is_constant:
                raise DefinitionError(f"The argument {name!r} of {self.name!r} is fixed and cannot be changed.")
        renames = later.renames(self.inputs.parameters.keys())
        bindings = {
            renames.get(name, name): replace(binding, parameter=renames.get(name, name))
            for name, binding in bindings.items()
        }
        changes = ArgumentChanges.parse(self.options.get("arguments")).then(later)
        examples = [_rename_inputs(example, renames) for example in self.examples or ()] or None
        return {"examples": examples, **options, "arguments": changes.by_name}, bindings

    def visible_examples(self, hidden: frozenset[str], *, in_full: bool = False) -> list[JsonObject]:
        """Return the sample calls without the parameters in `hidden`: as they were written, or each as `{"inputs": …}`.

        An example is written in full, or as the inputs alone.
        """
        parameters = self.inputs.parameters
        names = hidden | {parameters[name].property_name for name in hidden if name in parameters}
        examples = []
        for example in map(copy_containers, self.examples or ()):
            is_full = is_full_example(example)
            full = example if is_full else {"inputs": example}
            inputs = {name: value for name, value in full["inputs"].items() if name not in names}
            examples.append({**full, "inputs": inputs} if is_full or in_full else inputs)
        return examples
