"""The output side of a tool with the options `output`, `output_schema` and `render`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ahvn_tools.errors import DefinitionError
from ahvn_tools.schema.output import Output

RAW: Final = "raw"
"""The value of the option `output` for raw results."""


def make_output(annotation: Any, options: Mapping[str, Any], *, is_stream: bool = False) -> Output:
    """Return the output side of a tool with these options; `annotation` and `is_stream` are as for Output.

    Raises DefinitionError for options that do not fit together, and for an output schema that is not of an object.
    """
    schema, render = options.get("output_schema"), options.get("render")
    if options.get("output") == RAW:
        if schema is not None:
            raise DefinitionError('A raw result has no output schema: remove output_schema, or output="raw".')
        from ahvn_tools.schema.raw_output import RawOutput  # few tools have raw results

        return RawOutput(annotation, render=render, is_stream=is_stream)
    if render is not None:
        raise DefinitionError('render is an option of raw results: add output="raw", or remove it.')
    is_open = schema is None and "output_schema" in options
    return Output(annotation, schema=schema, is_stream=is_stream, is_open=is_open)
