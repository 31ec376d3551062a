"""`ahvn-tools list`: the tools of sources as a table."""

from __future__ import annotations

from ahvn_tools.cli.output import print_json, print_message, print_table
from ahvn_tools.cli.sources import Flag, SourceParameters, Sources, load_status, open_toolkit
from ahvn_tools.cli.tool_facts import HEADINGS, to_data, to_row


def list_tools(*sources: Sources, json: Flag = False, options: SourceParameters = None) -> int:
    """List the tools of sources, those of inactive groups too.

    Parameters
    ----------
    sources
        Python files, modules, folders, manifests, MCP servers, OpenAPI documents.
    json
        Print a list of tools as JSON.
    """
    with open_toolkit(sources, options) as kit:
        if json:
            print_json([to_data(spec) for spec in kit])
        elif len(kit):
            print_table(HEADINGS, map(to_row, kit))
        else:
            print_message("There is no tool.")
        return load_status(kit, options)
