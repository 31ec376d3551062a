"""`ahvn-tools export`: the tools of sources as a provider's request contains them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ahvn_tools.cli.errors import UsageError
from ahvn_tools.cli.output import print_json, to_json
from ahvn_tools.cli.output_file import write_text
from ahvn_tools.cli.sources import Flag, SourceParameters, Sources, load_status, open_toolkit
from ahvn_tools.formats import FormatName


def export(
    *sources: Sources,
    format: Annotated[FormatName | str, Parameter(name=["--format", "-f"])],  # noqa: A002  # the option --format
    strict: Flag = False,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    force: Flag = False,
    options: SourceParameters = None,
) -> int:
    """Print the tools of active groups as JSON in a provider's format, as the `tools` of a request.

    Parameters
    ----------
    sources
        Python files, modules, folders, manifests, MCP servers, OpenAPI documents.
    format
        The format, of this package or of an installed one.
    strict
        Make the schemas strict where the provider has strict tools.
    output
        The file to write instead of stdout.
    force
        Replace the file if there is one. It stays unchanged if the command fails.
    """
    require_format(format)
    with open_toolkit(sources, options) as kit:
        chosen: dict[str, Any] = {"strict": True} if strict else {}
        exported = kit.to(format, **chosen)
        if output is None:
            print_json(exported)
        else:
            write_text(output, to_json(exported) + "\n", replaces=force)
        return load_status(kit, options)


def require_format(name: str) -> None:
    """Raise UsageError with similar names for an unknown format."""
    from ahvn_tools import formats
    from ahvn_tools.errors import ToolLookupError

    try:
        formats.get(name)
    except ToolLookupError as error:
        raise UsageError(str(error)) from None
