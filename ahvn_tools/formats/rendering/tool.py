"""What a provider is shown of a tool: the schema of its arguments in the provider's dialect, and the description."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from ahvn_tools.definition import JsonObject, ToolDefinition
from ahvn_tools.errors import DefinitionError
from ahvn_tools.formats.rendering.names import select_wire_names, to_list
from ahvn_tools.schema.dialects.dialect import Dialect, translate
from ahvn_tools.schema.dialects.finding import Finding
from ahvn_tools.schema.dialects.flatten_root import add_missing_properties, flatten_root
from ahvn_tools.schema.dialects.normalize import normalize
from ahvn_tools.schema.jsonschema import compile_validator

StrictConverter = Callable[[JsonObject], tuple[JsonObject | None, list[Finding]]]
"""Makes a schema strict and says what it only tells, or makes none and says why."""


@dataclass(frozen=True, kw_only=True)
class ExportedTool:
    """What one provider is shown of a tool."""

    schema: JsonObject
    description: str
    is_strict: bool
    findings: list[Finding]
    """What the provider takes in another form, or not at all."""


_UNENFORCED_ROOT_RULE = Finding(
    severity="warning",
    place="",
    problem="a rule at its root is not enforced",
    fix="The description tells it, the tool checks it. To be rid of it, make the root one plain object.",
)


def export_tool(definition: ToolDefinition, dialect: Dialect, to_strict: StrictConverter | None = None) -> ExportedTool:
    """Return what a provider is shown: one plain object at the root; what it cannot say is told in the description.

    A schema for which `strict` has reasons is given as the provider takes it otherwise.
    """
    schema, findings = normalize(definition.input_schema)
    schema, rules = flatten_root(schema)
    told = "\n\n".join(filter(None, [definition.description, " ".join(rules)]))
    if rules:
        findings.append(_UNENFORCED_ROOT_RULE)
    if to_strict is not None:
        made, found = _convert_strict(schema, dialect, to_strict)
        findings += found
        if made is not None and not rules:
            return ExportedTool(schema=made, description=told, is_strict=True, findings=findings)
    schema, losses = translate(add_missing_properties(schema), dialect)
    return ExportedTool(schema=schema, description=told, is_strict=False, findings=[*findings, *losses])


def _convert_strict(
    schema: JsonObject, dialect: Dialect, to_strict: StrictConverter
) -> tuple[JsonObject | None, list[Finding]]:
    made, found = to_strict(schema)
    if made is None or dialect.supports_references:
        return made, found
    made, cuts = translate(made, dialect)
    return (None if cuts else made), [*found, *cuts]


def filter_example_inputs(definition: ToolDefinition, schema: JsonObject) -> list[JsonObject]:
    """Return the inputs of a tool's examples that fit the schema it is shown with: a provider refuses all others."""
    inputs = [example["inputs"] for example in definition.examples or () if isinstance(example.get("inputs"), dict)]
    if not inputs:
        return []
    try:
        fits = compile_validator(schema)
    except DefinitionError:  # a pattern, say, that only other engines know
        return []
    return [sample for sample in inputs if fits.is_valid(sample)]


def set_provider_options(
    tools: list[JsonObject],
    known: dict[str, ToolDefinition],
    defer_loading: bool | Collection[str],
    allowed_callers: Sequence[str] | None,
) -> None:
    """Say on exported tools, in place, which are found by the provider's search alone, and who may call them all."""
    deferred = select_wire_names(defer_loading, known)
    for tool in tools:
        if tool["name"] in deferred:
            tool["defer_loading"] = True
        if allowed_callers is not None:
            tool["allowed_callers"] = to_list(allowed_callers)
