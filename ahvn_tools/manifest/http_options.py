"""HTTP tools and OpenAPI documents of a manifest.

Their credentials stay as they are written, `${NAME}`: they are read from the environment at each call.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ahvn_tools.errors import SourceError, ToolSpecError
from ahvn_tools.loading.contents import Contents
from ahvn_tools.manifest.build import Build, NestedError
from ahvn_tools.manifest.source_model import OpenAPISource

_SAME = (
    "base_url", "variables", "operations", "methods", "deprecated", "responses", "external_files", "timeout",
)  # fmt: skip
"""Options with the same name in a manifest and in `ToolSpec.from_openapi`."""


def read_http(build: Build, index: int) -> Contents:
    """Return the tool of an HTTP request. Raises SourceError."""
    from ahvn_tools.loading.definition_file import to_definition
    from ahvn_tools.loading.definitions_http import to_spec

    written = build.document.data["sources"][index]["http"]
    yaml, file = build.document.yaml, build.document.file
    if yaml is None or file is None or "name" not in written:
        raise ToolSpecError("`http` has no `name`: it is that of the tool.")
    try:
        definition = to_definition(file, replace(yaml, value=written), "http")
        spec = to_spec(definition, build.read_options)
    except SourceError as error:
        if error.line is None:
            raise ToolSpecError(str(error).removeprefix(f"{yaml.name}: ")) from None
        raise NestedError(build.resolved.redact(str(error)), file=error.file, line=error.line) from None
    return Contents(name=spec.name, tools=(spec,))


def read_openapi(build: Build, index: int, source: OpenAPISource) -> Contents:
    """Return the tools of an OpenAPI document. Raises SourceError."""
    from ahvn_tools.loading import openapi

    choices: Any = {name: value for name, value in source.fields_set(*_SAME).items() if value is not None}
    if source.http_options:
        choices["http"] = source.http_options
    if source.operation_tags:
        choices["tags"] = source.operation_tags
    written = build.document.data["sources"][index]
    choices |= {name: written[name] for name in ("auth", "headers") if getattr(source, name)}
    build.read_options.require_readable(source.openapi)
    return openapi.read(source.openapi, build.read_options, choices)
