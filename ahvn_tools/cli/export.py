"""`ahvn-tools export`: the tools of sources as a provider's request contains them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ahvn_tools.cli.errors import UsageError
from ahvn_tools.cli.output import print_json, print_message, to_json
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
        Make the schemas strict where the provider has strict tools. The names of the others are printed to stderr.
    output
        The file to write instead of stdout.
    force
        Replace the file if there is one. It stays unchanged if the command fails.
    """
    require_format(format)
    with open_toolkit(sources, options) as kit:
        chosen: dict[str, Any] = {"strict": True} if strict else {}
        exported = kit.to(format, **chosen)
        if strict and (names := _names_without_strict(exported)):
            print_message(f"Not strict in the format {format!r}: {', '.join(names)}. `ahvn-tools check` says why.")
        if output is None:
            print_json(exported)
        else:
            write_text(output, to_json(exported) + "\n", replaces=force)
        return load_status(kit, options)


def _names_without_strict(exported: list[Any]) -> list[str]:
    """Return the names of tools that an export does not mark as strict: at the tool, or in its one inner object."""
    parts = [[part for part in (tool, *tool.values()) if isinstance(part, dict)] for tool in exported]
    loose = [each for each in parts if not any(part.get("strict") is True for part in each)]
    return [str(next((part["name"] for part in each if "name" in part), "?")) for each in loose]


def require_format(name: str) -> None:
    """Raise UsageError with similar names for an unknown format."""
    from ahvn_tools import formats
    from ahvn_tools.errors import ToolLookupError

    try:
        formats.get(name)
    except ToolLookupError as error:
        raise UsageError(str(error)) from None
