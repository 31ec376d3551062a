"""What a provider is shown of a tool: the schema of its arguments in the provider's dialect, and the description."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from ahvn_tools.definition import JsonObject, ToolDefinition
from ahvn_tools.errors import DefinitionError
from ahvn_tools.formats.names import listed, picked
from ahvn_tools.schema.dialect import Dialect, spoken
from ahvn_tools.schema.finding import Finding
from ahvn_tools.schema.jsonschema import compiled
from ahvn_tools.schema.root import flattened, with_properties
from ahvn_tools.schema.standard import standard

Strict = Callable[[JsonObject], tuple[JsonObject | None, list[Finding]]]
"""Makes a schema strict and says what it only tells, or makes none and says why."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What one provider is shown of a tool."""

    schema: JsonObject
    description: str
    is_strict: bool
    findings: list[Finding]
    """What the provider takes in another form, or not at all."""


_CHOICE = Finding(
    severity="warning",
    place="",
    problem="a rule at its root is not enforced",
    fix="The description tells it, the tool checks it. To be rid of it, make the root one plain object.",
)


def shown(definition: ToolDefinition, dialect: Dialect, strict: Strict | None = None) -> Shown:
    """Return what a provider is shown: one plain object at the root; what it cannot say is told in the description.

    A schema for which `strict` has reasons is given as the provider takes it otherwise.
    """
    schema, findings = standard(definition.input_schema)
    schema, rules = flattened(schema)
    told = "\n\n".join(filter(None, [definition.description, " ".join(rules)]))
    if rules:
        findings.append(_CHOICE)
    if strict is not None:
        made, found = _made_strict(schema, dialect, strict)
        findings += found
        if made is not None and not rules:
            return Shown(schema=made, description=told, is_strict=True, findings=findings)
    schema, losses = spoken(with_properties(schema), dialect)
    return Shown(schema=schema, description=told, is_strict=False, findings=[*findings, *losses])


def _made_strict(schema: JsonObject, dialect: Dialect, strict: Strict) -> tuple[JsonObject | None, list[Finding]]:
    made, found = strict(schema)
    if made is None or dialect.has_references:
        return made, found
    made, cuts = spoken(made, dialect)
    return (None if cuts else made), [*found, *cuts]


def fitting(definition: ToolDefinition, schema: JsonObject) -> list[JsonObject]:
    """Return the inputs of a tool's examples that fit the schema it is shown with: a provider refuses all others."""
    inputs = [example["inputs"] for example in definition.examples or () if isinstance(example.get("inputs"), dict)]
    if not inputs:
        return []
    try:
        fits = compiled(schema)
    except DefinitionError:  # a pattern, say, that only other engines know
        return []
    return [sample for sample in inputs if fits.is_valid(sample)]


def mark(
    tools: list[JsonObject],
    known: dict[str, ToolDefinition],
    defer_loading: bool | Collection[str],
    allowed_callers: Sequence[str] | None,
) -> None:
    """Say on exported tools, in place, which are found by the provider's search alone, and who may call them all."""
    deferred = picked(defer_loading, known)
    for tool in tools:
        if tool["name"] in deferred:
            tool["defer_loading"] = True
        if allowed_callers is not None:
            tool["allowed_callers"] = listed(allowed_callers)
