"""`ahvn-tools pin`: write the definitions of tools to a lock file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ahvn_tools.cli.output import print_text
from ahvn_tools.cli.output_file import write_text
from ahvn_tools.cli.sources import SourceParameters, Sources, open_toolkit, require_complete


def pin(
    *sources: Sources,
    output: Annotated[Path, Parameter(name=["--output", "-o"])] = Path("tools.lock"),
    options: SourceParameters = None,
) -> None:
    """Write the definitions and fingerprints of tools to a lock file, for `check --lock` and `diff`.

    The file contains what models see: no bound value, no state. The same tools give the same text, so it can be kept
    in version control.

    Parameters
    ----------
    sources
        Where the tools are, as for `list`.
    output
        The lock file. No other file is replaced.
    """
    from ahvn_tools import definition_lock

    with open_toolkit(sources, options) as kit:
        require_complete(kit, options)
        definitions = [spec.definition for spec in kit]
    before = definition_lock.read(output) if output.exists() else None
    write_text(output, definition_lock.to_text(definitions), replaces=before is not None)
    count = f"{len(definitions)} tool{'' if len(definitions) == 1 else 's'}"
    if before is None:
        print_text(f"Pinned {count} in {output}.")
        return
    changes = definition_lock.compare(before, definitions)
    words = [
        f"{len(names)} {word}"
        for word, names in (
            ("added", changes.added),
            ("removed", changes.removed),
            ("changed", changes.breaking | changes.compatible),
        )
        if names
    ]
    print_text(f"Pinned {count} in {output}: {', '.join(words) or 'no change'}.")
