"""What the pages say of a tool: values of bound parameters only if the host shows the state, and never secrets."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ahvn_tools import formats, lint
from ahvn_tools.errors import DefinitionError, ToolSpecError
from ahvn_tools.formats import Finding
from ahvn_tools.json_types import JsonObject
from ahvn_tools.middleware import reporting
from ahvn_tools.redaction.credentials import MASK
from ahvn_tools.redaction.names import is_secret_name
from ahvn_tools.redaction.texts import JsonRedactor, mask_named
from ahvn_tools.state import MISSING
from ahvn_tools.ui import snippets

if TYPE_CHECKING:
    from ahvn_tools.definition import ToolDefinition
    from ahvn_tools.toolkit import Toolkit
    from ahvn_tools.toolkit.tool import ToolkitTool

FORMATS: Final = formats.BUILT_IN
"""The formats of the pages."""

MAX_VALUE_CHARS = 500
"""Longer values of the state are cut."""

MAX_COMPARED_LINES = 2_000
"""Schemas with more lines are not compared with what is sent: that would take seconds."""

MAX_SCHEMA_CHARS = 40_000
"""Tools whose input schema has more characters are not judged and exported: providers refuse them, and it is slow."""

MAX_LINES = 5_000
"""How many lines of an export are shown."""

MAX_FINDINGS = 500
"""How many findings are shown above the lines."""

VOCABULARY = "o200k_base"
"""The vocabulary in which tokens are counted."""

_VOCABULARY_FILE: Final = "fb374d419588a4632f3f557e76b4b70aebbca790"
"""Its file in the cache of tiktoken, which is the SHA-1 of its address."""

_SCHEMA_KEYS: Final = {"parameters", "input_schema", "inputSchema", "parametersJsonSchema", "json"}
"""The members of an export that contain the input schema."""

_NAMED_TEXTS: Final = (
    r"""(?i)(?<![\w-])([\w-]{1,60})(["']?\s{0,9}[:=]\s{0,9})((?:bearer|basic)\s{1,9}[^\s"',;]+|"[^"]*"|'[^']*'|[^\s"',;&]+)""",
    r"""(?i)(?<![\w-])(--[\w-]{1,60}|bearer)(\s{1,9})("[^"]*"|'[^']*'|[^\s"',;]+)""",
)
"""A name and a value: of headers, options and assignments."""

_HINTS: Final = {
    "readOnlyHint": ("only reads", "changes something"),
    "destructiveHint": ("may destroy", "destroys nothing"),
    "idempotentHint": ("may be repeated", "may not be repeated"),
    "openWorldHint": ("reaches outside", "stays inside"),
}
"""MCP's hints in words: those that are true, and those that are false."""

_APPROVALS: Final = {"allow": "", "ask": "needs an approval", "deny": "denied"}


def list_row(tool: ToolkitTool, groups: Mapping[str, bool]) -> JsonObject:
    """Return a tool as a row of the list; `groups` says which are active."""
    return {
        "name": tool.name,
        "title": tool.title or "",
        "summary": tool.description.strip().partition("\n")[0],
        "group": tool.group,
        "inactive": not groups.get(tool.group, True),
        "tags": sorted(tool.tags),
        "audience": sorted(tool.audience),
        "approval": _approval(tool),
        "source": tool.server_name or "this process",
    }


def tool_facts(tool: ToolkitTool, groups: Mapping[str, bool]) -> JsonObject:
    """Return what a model sees of a tool; of one that cannot be used yet, `unusable` says why."""
    facts: JsonObject = {**list_row(tool, groups), "origin": tool.origin, "unusable": "", "hints": _hints(tool)}
    facts |= {"prompt": "", "fingerprint": "", "input_schema": {}, "output_schema": None}
    try:
        definition = tool.definition
    except DefinitionError as error:
        return {**facts, "unusable": str(error)}
    return {
        **facts,
        "prompt": tool.to_prompt(),
        "fingerprint": definition.fingerprint,
        "input_schema": definition.input_schema,
        "output_schema": definition.output_schema,
    }


def _hints(tool: ToolkitTool) -> list[str]:
    annotations = tool.compiled.template.annotations or {}
    found = [_HINTS[key][not value] for key, value in annotations.items() if key in _HINTS and isinstance(value, bool)]
    return [*found, *filter(None, [_approval(tool)])]


def _approval(tool: ToolkitTool) -> str:
    """Return what happens to the calls of a tool by its options and the rules; "" if they run."""
    decision = tool.approval
    return "may need an approval" if decision is None else _APPROVALS[decision.decision]


def bound_rows(tool: ToolkitTool) -> list[tuple[str, str, str]]:
    """Return each bound parameter with its state key and the layer that has a value for it now."""
    return [(name, *_place(tool, name)) for name in tool.compiled.bindings if name != "self"]


def shown_values(kit: Toolkit, tool: ToolkitTool) -> dict[str, str]:
    """Return the values of the bound parameters as JSON, without secrets; those of functions are not known."""
    plan, scopes = tool.compiled.plan, tool.state_scopes
    bound = [(other, name, binding.key) for other in kit for name, binding in other.compiled.bindings.items()]
    keys = {key for other, name, key in bound if key is not None and is_secret(other, name)}
    secrets = {key.text: value for key in keys if (value := key.find(scopes)) is not MISSING}
    redact = JsonRedactor(secrets, _mask_named_texts, has_chunks=False)
    shown = {}
    for name, value in plan.readable_values(scopes).items():
        plain, own = mask_named(reporting.as_json(value), plan.hidden_names), tool.compiled.bindings[name].key
        for key in keys:
            if own is not None and key.steps[: len(own.steps)] == own.steps:
                plain = _mask_step(plain, key.steps[len(own.steps) :])
        shown[name] = (
            MASK
            if is_secret(tool, name)
            else reporting.as_text(json.dumps(redact(_mask_pairs(plain))), MAX_VALUE_CHARS)
        )
    return shown


def _mask_step(value: Any, steps: tuple[str | int, ...]) -> Any:
    """Return JSON with `***` for what is under these steps, if that is there; a list is masked whole."""
    if not steps or not isinstance(value, dict):
        return MASK
    first, *others = steps
    return {**value, first: _mask_step(value[first], tuple(others))} if first in value else value


def _mask_named_texts(text: str) -> str:
    """Return a text with `***` for the values of secret names in it, as in `Authorization: …` and `--password=…`."""
    for pattern in _NAMED_TEXTS:
        text = re.sub(
            pattern, lambda found: f"{found[1]}{found[2]}{MASK}" if _names_secret(found[1]) else found[0], text
        )
    return text


def _mask_pairs(value: Any) -> Any:
    """Return JSON with `***` for what follows a secret name in a list, and in objects with a name and a value."""
    if isinstance(value, dict):
        is_named = _names_secret(value.get("name", value.get("key")))
        return {key: MASK if is_named and key == "value" else _mask_pairs(part) for key, part in value.items()}
    if isinstance(value, list):
        pairs = zip([None, *value], value, strict=False)
        return [MASK if _names_secret(before) else _mask_pairs(part) for before, part in pairs]
    return value


def _names_secret(value: Any) -> bool:
    return isinstance(value, str) and is_secret_name(value.lstrip("-"))


def is_secret(tool: ToolkitTool, name: str) -> bool:
    """Return whether a bound parameter is secret: by a mark, or by its name or that of its key."""
    binding = tool.compiled.bindings[name]
    steps = () if binding.key is None else binding.key.steps
    is_named = name in tool.compiled.plan.secret_names or any(is_secret_name(str(step)) for step in steps)
    return binding.is_secret or is_named


def state_schema(tool: ToolkitTool) -> JsonObject:
    """Return the schema of the state that a page may set for its calls: the keys of the bound parameters."""
    inputs = tool.compiled.template.inputs
    schema = inputs.schema(frozenset())
    properties = {}
    for name, binding in tool.compiled.bindings.items():
        own = schema.get("properties", {}).get(inputs.parameters[name].property_name)
        if binding.key is None or binding.resolver is not None or not isinstance(own, dict):
            continue
        if all(isinstance(step, str) for step in binding.key.steps):  # an index needs a list
            marks = {"writeOnly": True} if is_secret(tool, name) else {}
            properties[binding.key.text] = {**{word: own[word] for word in own if word != "default"}, **marks}
    definitions = {word: part for word, part in schema.items() if word in {"$defs", "definitions"}}
    return {"type": "object", "properties": properties, "additionalProperties": False, **definitions}


def _place(tool: ToolkitTool, name: str) -> tuple[str, str]:
    binding = tool.compiled.bindings[name]
    key = "" if binding.key is None else binding.key.text
    if binding.resolver is not None:
        return key, "a function, at each call"
    if binding.key is None:
        return "", "fixed, where the tool was added"
    scopes = tool.state_scopes
    layers = [*(["session"] * (len(scopes) - 2)), "toolkit", "tool"]
    for layer, scope in zip(layers, scopes, strict=True):
        if binding.key.find((scope,)) is not MISSING:
            return key, f"the state of the {layer}"
    return key, "no state: the default, if there is one"


def verdicts(tool: ToolkitTool) -> dict[str, str]:
    """Return what each provider does with a tool; nothing of one that cannot be used yet, or is too large."""
    try:
        if _is_large(tool.definition):
            return dict.fromkeys(FORMATS, "too large")
        return tool.definition.share("ui", _judge)
    except DefinitionError:
        return dict.fromkeys(FORMATS, "unusable")


def _is_large(definition: ToolDefinition) -> bool:
    return len(json.dumps(definition.input_schema)) > MAX_SCHEMA_CHARS


def _judge(definition: ToolDefinition) -> dict[str, str]:
    return dict(lint.verdicts(definition, FORMATS))


def export_facts(tool: ToolkitTool, name: str, *, strict: bool) -> JsonObject:
    """Return the lines of an export with the findings about each, or why there is none.

    A line is `(mark, text, findings)`. The mark says how the schema differs from the tool's own: `+` for a line that
    was added, `~` for one that was changed, `-` for the tool's own line that is not sent.
    """
    nothing = {"lines": [], "more_lines": 0, "findings": [], "more_findings": 0, "tokens": None, "snippets": {}}
    try:
        definition = tool.definition
        if _is_large(definition):
            reason = f"The input schema has more than {MAX_SCHEMA_CHARS:,} characters: the tool is not exported here."
            return {**nothing, "refusal": reason}
        export = tool.to(name, strict=strict)
    except (ToolSpecError, TypeError) as error:
        return {**nothing, "refusal": str(error)}
    by_place: dict[str, list[Finding]] = {}
    for finding in lint.find_by_format(definition, [name])[name]:
        by_place.setdefault(finding.place, []).append(finding)
    noted = []
    for mark, line in _marked_lines(export, definition.input_schema):
        noted.append((mark, line.text, by_place.pop(line.place, []) if line.place and mark != "-" else []))
    others = [finding for findings in by_place.values() for finding in findings]
    return {
        "refusal": "",
        "lines": noted[:MAX_LINES],
        "more_lines": max(len(noted) - MAX_LINES, 0),
        "findings": others[:MAX_FINDINGS],
        "more_findings": max(len(others) - MAX_FINDINGS, 0),
        "tokens": count_tokens(json.dumps(export, ensure_ascii=False)),
        "snippets": snippets.request_snippets(name, export),
    }


class _Line(NamedTuple):
    """A line of JSON."""

    text: str
    place: str
    """The path of the parameter that it is about."""
    is_schema: bool
    """Whether it is a line inside of the input schema."""

    @property
    def compared(self) -> str:
        return self.text.strip().rstrip(",")


def _json_lines(
    value: Any,
    schema: Any,
    *,
    place: str = "",
    depth: int = 0,
    key: str = "",
    ending: str = "",
    is_schema: bool = False,
) -> Iterator[_Line]:
    """Yield each line of a value as JSON; `schema` is its part that is the input schema."""
    spaces = "  " * depth
    label = spaces + (f"{json.dumps(key, ensure_ascii=False)}: " if key else "")
    if not isinstance(value, dict | list) or not value:
        yield _Line(f"{label}{json.dumps(value, ensure_ascii=False)}{ending}", place, is_schema)
        return
    is_object = isinstance(value, dict)
    items = list(value.items()) if isinstance(value, dict) else [("", item) for item in value]
    yield _Line(label + ("{" if is_object else "["), place, is_schema)
    is_inside = is_schema or value is schema
    for number, (name, item) in enumerate(items):
        inner = place
        if key == "properties" and is_object:
            inner = f"{place}.{name}" if place else name
        elif name == "items":
            inner = f"{place}[]"
        comma = "," if number < len(items) - 1 else ""
        yield from _json_lines(item, schema, place=inner, depth=depth + 1, key=name, ending=comma, is_schema=is_inside)
    yield _Line(spaces + ("}" if is_object else "]") + ending, place, is_schema)


def _marked_lines(export: Any, own_schema: JsonObject) -> Iterator[tuple[str, _Line]]:
    """Yield the lines of an export with the mark of each, and the lines of the schema that are not sent."""
    schema = _find_schema(export)
    lines = list(_json_lines(export, schema))
    start = next((number for number, line in enumerate(lines) if line.is_schema), 0)
    sent = [line for line in lines if line.is_schema]
    depth = (len(lines[start].text) - len(lines[start].text.lstrip())) // 2 - 1
    own = list(_json_lines(_ordered_as(schema, own_schema), None, depth=depth))[1:-1]
    if not sent or max(len(own), len(sent)) > MAX_COMPARED_LINES:
        yield from (("", line) for line in lines)
        return
    yield from (("", line) for line in lines[:start])
    matcher = SequenceMatcher(None, [line.compared for line in own], [line.compared for line in sent], autojunk=False)
    for kind, from_own, to_own, from_sent, to_sent in matcher.get_opcodes():
        if kind != "equal":
            yield from (("-", line) for line in own[from_own:to_own])
        mark = {"equal": "", "insert": "+"}.get(kind, "~")
        yield from ((mark, line) for line in sent[from_sent:to_sent])
    yield from (("", line) for line in lines[start + len(sent) :])


def _find_schema(export: Any) -> Any:
    """Return the part of an export that is the input schema; None if it is a text."""
    for name, part in export.items() if isinstance(export, dict) else ():
        if isinstance(part, dict) and name in _SCHEMA_KEYS and part.keys() != {"json"}:
            return part
        if isinstance(part, dict) and (found := _find_schema(part)) is not None:
            return found
    return None


def _ordered_as(order: Any, value: Any) -> Any:
    """Return a value whose members have the order of another one: providers receive them in different orders."""
    if isinstance(order, dict) and isinstance(value, dict):
        names = [name for name in order if name in value] + [name for name in value if name not in order]
        return {name: _ordered_as(order.get(name), value[name]) for name in names}
    if isinstance(order, list) and isinstance(value, list):
        return [_ordered_as(*pair) for pair in itertools.zip_longest(order[: len(value)], value)]
    return value


def count_tokens(text: str) -> int | None:
    """Return how many tokens a text has for OpenAI's models; None if tiktoken, or its vocabulary, is not installed."""
    folder = os.environ.get("TIKTOKEN_CACHE_DIR") or Path(tempfile.gettempdir()) / "data-gym-cache"
    if importlib.util.find_spec("tiktoken") is None or not (Path(folder) / _VOCABULARY_FILE).is_file():
        return None  # without the file, tiktoken would download it
    import tiktoken

    return len(tiktoken.get_encoding(VOCABULARY).encode(text, disallowed_special=()))
