"""The options that a manifest has for tools, as a toolkit takes them."""

from __future__ import annotations

from typing import Any

from ahvn_tools.manifest.build import Build
from ahvn_tools.manifest.document import Path_
from ahvn_tools.manifest.manifest_model import ManifestModel
from ahvn_tools.toolkit.entry_options import SingleToolOptions

_COPIED = (
    "group", "tags", "audience", "timeout", "requires_approval", "exclusive", "allowed_callers", "task", "max_items",
    "max_bytes", "isolation", "ship", "ship_secrets", "keep_children", "coerce_numbers_to_str", "on_duplicate",
    "enabled", "title", "description", "annotations", "arguments", "binds", "output",
)  # fmt: skip
"""Options with the same name and value in a manifest and in a toolkit."""

_LIMITS = frozenset({"max_items", "max_bytes"})
"""Options that are None for no limit."""


def copied_options(build: Build, model: ManifestModel, path: Path_) -> dict[str, Any]:
    """Return the options of a source, or of single tools, that a toolkit takes as they are, and their middleware."""
    given = model.fields_set(*model.model_fields_set & set(_COPIED))
    options = {name: value for name, value in given.items() if value is not None or name in _LIMITS}
    if "middleware" in model.model_fields_set:
        options["middleware"] = build.middleware(model.middleware, *path, "middleware")  # type: ignore[attr-defined]  # a field of these models
    return options


def single_tool_options(build: Build) -> dict[str, SingleToolOptions]:
    """Return the options of single tools: name or pattern -> options. `presets` have priority over `tools`."""
    options: dict[str, Any] = {}
    for name, tool in build.manifest.tools.items():
        options[name] = copied_options(build, tool, ("tools", name))
        if tool.preset:
            options[name]["preset"] = build.resolved.seal(tool.preset, ("tools", name, "preset"))
    for name, values in build.manifest.presets.items():
        sealed = build.resolved.seal(values, ("presets", name))
        options[name] = {**options.get(name, {}), "preset": {**options.get(name, {}).get("preset", {}), **sealed}}
    return options
