"""`ahvn-tools prompt`: the tools of sources as text for a model."""

from __future__ import annotations

from ahvn_tools.cli.output import print_text
from ahvn_tools.cli.sources import Flag, SourceParameters, Sources, load_status, open_toolkit


def prompt(*sources: Sources, calling: Flag = False, notes: Flag = False, options: SourceParameters = None) -> int:
    """Print the tools of active groups as text for a model: the signature and the docstring of each.

    Parameters
    ----------
    sources
        Python files, modules, folders, manifests, MCP servers, OpenAPI documents.
    calling
        Print a system message with the schemas and the protocol by which a model without function calling calls tools.
    notes
        Print the notes of the active groups, too.
    """
    with open_toolkit(sources, options) as kit:
        if calling:
            texts = [message["content"] for message in kit.to("prompt")]
        else:
            texts = [kit.to_prompt()]
        if notes and kit.notes:
            texts.append(kit.notes)
        print_text("\n\n".join(texts))
        return load_status(kit, options)
