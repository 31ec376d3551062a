"""`ahvn-tools search`: the tools of sources that match words, best match first."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from ahvn_tools.cli.output import print_json, print_message, print_table
from ahvn_tools.cli.sources import Flag, MoreSources, Source, SourceParameters, open_toolkit
from ahvn_tools.cli.tool_facts import HEADINGS, to_data, to_row


def search(
    source: Source,
    query: Annotated[str, Parameter(name="QUERY")],
    /,
    *more_words: Annotated[str, Parameter(name="MORE-WORDS")],
    limit: Annotated[int, Parameter(validator=Number(gte=1))] = 10,
    json: Flag = False,
    source_: MoreSources = None,
    options: SourceParameters = None,
) -> int:
    """Find tools by words in their names, descriptions, parameters, tags and examples; best match first.

    Only tools of active groups are found. The exit status is 1 if there is none.

    Parameters
    ----------
    query
        Words to look for. One match is enough.
    more_words
        More words, so that a query of several words needs no quotes.
    limit
        How many tools are printed at most.
    json
        Print a list of tools as JSON.
    """
    with open_toolkit([source, *(source_ or ())], options) as kit:
        found = kit.search(" ".join([query, *more_words]), limit)
        if json:
            print_json([to_data(spec) for spec in found])
        elif found:
            print_table(HEADINGS, map(to_row, found))
        else:
            print_message(f"None of the {len(kit)} tools matches.")
        return 0 if found else 1
