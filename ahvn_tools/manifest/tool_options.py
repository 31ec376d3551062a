"""The options that a manifest has for tools, as a toolkit takes them."""

from __future__ import annotations

from typing import Any, Final

from ahvn_tools.manifest.build import Build
from ahvn_tools.manifest.document import Path_
from ahvn_tools.manifest.manifest_model import ManifestModel
from ahvn_tools.settings import given_options
from ahvn_tools.toolkit.entry_options import AddOptions, SingleToolOptions

_COPIED: Final = {*AddOptions.__annotations__, *SingleToolOptions.__annotations__} - {
    "describe", "middleware", "name", "preset",
}  # fmt: skip
"""Options with the same name and value in a manifest and in a toolkit: all but these, which are read otherwise."""


def copied_options(build: Build, model: ManifestModel, path: Path_) -> dict[str, Any]:
    """Return the options of a source, or of single tools, that a toolkit takes as they are, and their middleware."""
    options = given_options(model.fields_set(*model.model_fields_set & _COPIED))
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
