"""What `list`, `show` and `search` print of a tool: plain texts, and no value that is bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ahvn_tools.spec import ToolSpec

HINTS: Final = {
    "readOnlyHint": ("read-only", "changes data"),
    "destructiveHint": ("destructive", "not destructive"),
    "idempotentHint": ("idempotent", "not idempotent"),
    "openWorldHint": ("open-world", "closed-world"),
}
"""The words for MCP's hints that are true, and for those that are false."""


def signature(spec: ToolSpec) -> str:
    """Return the parameters and the return type in Python syntax; of a tool that cannot be used yet, why."""
    from ahvn_tools.signature import python_signature

    unbound = spec.compiled.plan.unbound_parameter
    return (
        f"({unbound.name!r} must be bound)" if unbound is not None else _shorten(str(python_signature(spec.definition)))
    )


def type_text(annotation: Any) -> str:
    """Return a type in Python syntax."""
    import inspect

    return _shorten(inspect.formatannotation(annotation))


def _shorten(text: str) -> str:
    return text.replace("typing.", "")


def summary(spec: ToolSpec) -> str:
    """Return the first line of the description."""
    return spec.description.strip().partition("\n")[0]


def hints(spec: ToolSpec) -> list[str]:
    """Return the hints that the annotations state."""
    annotations = spec.compiled.template.annotations or {}
    return [HINTS[key][not value] for key, value in annotations.items() if key in HINTS and isinstance(value, bool)]


def labels(spec: Any) -> dict[str, Any]:
    """Return the group, tags and audience of a tool in a toolkit."""
    return {"group": spec.group, "tags": sorted(spec.tags), "audience": sorted(spec.audience)}


def credentials(spec: Any) -> dict[str, str]:
    """Return where each credential of an HTTP tool is sent, by the hidden parameter that has it."""
    from ahvn_tools.sources.http.body import HTTPBody

    if not isinstance(spec.body, HTTPBody):
        return {}
    return {name: item.sent_as for item in spec.body.request.security for name in item.parameters}


def to_row(spec: Any) -> tuple[str, ...]:
    """Return a row of the table with these `HEADINGS`."""
    tags, audience = ", ".join(sorted(spec.tags)), ", ".join(sorted(spec.audience))
    return spec.name, signature(spec), summary(spec), spec.group, tags, ", ".join(hints(spec)), audience


HEADINGS: Final = ("name", "signature", "description", "group", "tags", "hints", "audience")


def to_data(spec: Any) -> dict[str, Any]:
    """Return the same as JSON, with the whole description and the annotations."""
    return {
        "name": spec.name,
        "signature": signature(spec),
        "description": spec.description,
        **labels(spec),
        "annotations": spec.compiled.template.annotations or {},
    }
