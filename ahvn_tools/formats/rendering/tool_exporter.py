"""A tool as one provider sees it: the schema of its arguments in the provider's dialect, and the description."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import DefinitionError, ToolLookupError, near_misses
from ahvn_tools.formats.rendering.names import MAX_NAME_LENGTH, index_by_wire_name, to_list, wire_name
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.dialects.dialect import Dialect
from ahvn_tools.schema.dialects.finding import Finding, not_strict
from ahvn_tools.schema.dialects.merge import add_missing_properties, flatten_root
from ahvn_tools.schema.dialects.normalize import normalize
from ahvn_tools.schema.dialects.translate import translate
from ahvn_tools.schema.jsonschema import compile_validator
from ahvn_tools.schema.keywords import WRAP_RESULT_KEY
from ahvn_tools.schema.plain_types import is_plain_object

MAX_DESCRIPTION_CHARS = 1_024
"""The limit of some OpenAI models, and of some hosts with OpenAI's API."""

StrictConverter = Callable[[JsonObject], tuple[JsonObject | None, list[Finding]]]
"""Returns a strict schema with the rules that it only describes; or None with the reasons why there is none."""

_UNENFORCED_ROOT_RULE = Finding(
    severity="warning",
    place="",
    problem="a rule at its root is not enforced",
    fix="The description states it and the tool enforces it. To avoid this, make the root one plain object.",
    effect="wider",
)
_NOT_STRICT_ROOT_RULE = not_strict("", "it has a rule at its root", "Make the root one plain object.")
_NOT_STRICT_REFERENCES = not_strict("", "its '$ref's cannot all be replaced by their targets", "Refer less often.")


@dataclass(frozen=True, kw_only=True)
class ExportedTool:
    """What one provider sees of a tool."""

    schema: JsonObject
    description: str
    is_strict: bool
    findings: list[Finding]
    """What the provider accepts in another form, or not at all."""


@dataclass(frozen=True)
class ToolExporter:
    """Translates tools for one provider."""

    dialect: Dialect
    to_strict: StrictConverter | None = None
    """Makes a schema strict; None for a provider without strict tools."""
    max_description_chars: int | None = None

    def export(self, definition: ToolDefinition, *, strict: bool = False) -> ExportedTool:
        """Return a tool with one plain object at the root of its schema; the description states what that loses.

        A schema that cannot be strict is exported as without `strict`.
        """
        schema = definition.input_schema
        changes_keywords = self.dialect.keywords is not None or self.dialect.finalize is not None
        if not (strict or changes_keywords) and is_plain_object(schema):  # as most are
            return ExportedTool(schema=schema, description=definition.description, is_strict=False, findings=[])
        schema, findings = normalize(schema)
        schema, rules, restrictions = flatten_root(schema)
        description = "\n\n".join(filter(None, [definition.description, " ".join(rules)]))
        if rules:
            findings += [_UNENFORCED_ROOT_RULE, *restrictions]
        if strict and self.to_strict is not None:
            strict_schema, strict_findings = self._make_strict(schema, self.to_strict)
            findings += [*strict_findings, *([_NOT_STRICT_ROOT_RULE] if rules else [])]
            if strict_schema is not None and not rules:
                return ExportedTool(schema=strict_schema, description=description, is_strict=True, findings=findings)
        schema, losses = translate(add_missing_properties(schema), self.dialect)
        return ExportedTool(schema=schema, description=description, is_strict=False, findings=[*findings, *losses])

    def to_fields(self, definition: ToolDefinition, schema_key: str, *, strict: bool = False) -> JsonObject:
        """Return a tool as an object: name, description if any, schema, and with `strict` whether it is strict."""
        tool = self.export(definition, strict=strict)
        description = {"description": tool.description} if tool.description else {}
        is_strict = {"strict": tool.is_strict} if strict else {}
        return {"name": wire_name(definition.name), **description, schema_key: tool.schema, **is_strict}

    def findings(self, definition: ToolDefinition) -> list[Finding]:
        """Return what the provider sees in another form or not at all, and what cannot be strict."""
        exports = [self.export(definition, strict=strict) for strict in ((False, True) if self.to_strict else (False,))]
        texts = _check_texts(definition, self.max_description_chars)
        names = _check_argument_names(exports[0].schema, self.dialect)
        return list(dict.fromkeys([*texts, *names, *(finding for tool in exports for finding in tool.findings)]))

    def _make_strict(self, schema: JsonObject, to_strict: StrictConverter) -> tuple[JsonObject | None, list[Finding]]:
        strict_schema, findings = to_strict(schema)
        if strict_schema is None or self.dialect.supports_references:
            return strict_schema, findings
        strict_schema, losses = translate(strict_schema, self.dialect)
        return (None, [*findings, *losses, _NOT_STRICT_REFERENCES]) if losses else (strict_schema, findings)


def export_all(
    definitions: Iterable[ToolDefinition], to_tool: Callable[..., JsonObject], *options: object
) -> list[JsonObject]:
    """Return `to_tool(definition, *options)` for each definition, from the definition's cache where possible."""
    definitions = list(definitions)
    if len(definitions) == 1 and isinstance(definitions[0], ToolDefinition):  # its name clashes with no other
        return [definitions[0].memoize(to_tool, *options)]
    return [definition.memoize(to_tool, *options) for definition in index_by_wire_name(definitions).values()]


def split_value_schema(output_schema: JsonObject) -> tuple[JsonObject, JsonObject]:
    """Return the schema of the value that a model reads, and the definitions that the schema refers to.

    The value is the whole object, unless the schema wraps another value in the property `result`.
    """
    schema = dict(output_schema)
    definitions: JsonObject = {key: schema.pop(key) for key in ("$defs", "definitions") if key in schema}
    is_wrapped = schema.pop(WRAP_RESULT_KEY, False) is True and "result" in schema.get("properties", {})
    return (schema["properties"]["result"] if is_wrapped else schema), definitions


def filter_example_inputs(definition: ToolDefinition, schema: JsonObject) -> list[JsonObject]:
    """Return the inputs of a tool's examples that match the exported schema: a provider refuses all others."""
    inputs = [example["inputs"] for example in definition.examples or () if isinstance(example.get("inputs"), dict)]
    if not inputs:
        return []
    try:
        validator = compile_validator(schema)
    except DefinitionError:  # for example a pattern that only other regex engines support
        return []
    return [sample for sample in inputs if validator.is_valid(sample)]


def set_provider_options(
    tools: list[JsonObject],
    definitions: Iterable[ToolDefinition],
    defer_loading: bool | Collection[str],
    callers: Mapping[str, list[str]],
) -> None:
    """Set on exported tools, in place, which of them only the provider's search returns, and who may call them.

    `callers` are those of each tool, by its name.

    Raises ToolLookupError when `defer_loading` contains a name that is not among the `definitions`.
    """
    names = [definition.name for definition in definitions]
    if isinstance(defer_loading, bool):
        defer_loading = names if defer_loading else []
    deferred = to_list(defer_loading)
    for name in deferred:
        if name not in names:
            raise ToolLookupError(f"There is no tool {name!r} in this export. {near_misses(name, names)}")
    for tool, name in zip(tools, names, strict=True):
        if name in deferred:
            tool["defer_loading"] = True
        if name in callers:
            tool["allowed_callers"] = callers[name]


def _check_texts(definition: ToolDefinition, max_description_chars: int | None) -> Iterator[Finding]:
    """Yield a finding for a name that providers see in another form, and one for a description over the limit."""
    wire = wire_name(definition.name)
    if wire != definition.name:
        yield Finding(
            severity="note",
            place="",
            problem=f"the model sees the name {wire!r}",
            fix=f"Use only letters, digits, '_' and '-', start with a letter or '_', at most {MAX_NAME_LENGTH} in all.",
            rule="changed-name",
        )
    if max_description_chars is not None and len(definition.description) > max_description_chars:
        yield Finding(
            severity="warning",
            place="",
            problem=f"the description has more than {max_description_chars:,} characters",
            fix="Shorten it: some models and hosts refuse the whole request.",
            rule="long-description",
        )


def _check_argument_names(schema: JsonObject, dialect: Dialect) -> Iterator[Finding]:
    """Yield a finding for each argument with a name for which the provider would refuse the whole request."""
    for name in schema.get("properties", {}):
        if dialect.argument_names is not None and not dialect.argument_names.fullmatch(name):
            valid = re.sub(r"[^a-zA-Z0-9_.-]", "_", name)[:MAX_NAME_LENGTH] or "_"
            yield Finding(
                severity="error",
                place=name,
                problem=f"Claude accepts only letters, digits, '_', '.' and '-' in its name, at most {MAX_NAME_LENGTH}",
                fix=f"Rename it for models by the tool's option arguments={{{name!r}: {{'name': {valid!r}}}}}.",
                rule="refused-argument-name",
            )
