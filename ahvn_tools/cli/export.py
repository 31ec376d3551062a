"""`ahvn-tools export`, `prompt`, `pin` and `diff`: definitions of tools for models, for files and compared."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import Parameter

from ahvn_tools.cli.output import (
    CommandError,
    UsageError,
    escape_line,
    plural,
    print_json,
    print_message,
    print_text,
    print_words,
    to_json,
)
from ahvn_tools.cli.output_file import write_text
from ahvn_tools.cli.sources import (
    Flag,
    LoadingOptions,
    SourceParameters,
    Sources,
    load_status,
    open_toolkit,
    require_complete,
    to_name_condition,
)
from ahvn_tools.errors import ToolkitError
from ahvn_tools.formats import FormatName

if TYPE_CHECKING:  # the command line is parsed without pydantic
    from collections.abc import Sequence

    from ahvn_tools.definition import ToolDefinition
    from ahvn_tools.toolkit import Toolkit


def export(
    *sources: Sources,
    format: Annotated[FormatName | str | None, Parameter(name=["--format", "-f"])] = None,  # noqa: A002  # the option --format
    skill: Path | None = None,
    strict: Flag = False,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    force: Flag = False,
    options: SourceParameters = None,
) -> int:
    """Print the tools of active groups as JSON in a provider's format, as the `tools` of a request.

    With --skill, write them as a skill instead: a folder with a SKILL.md, which says how to call each by a command.

    Parameters
    ----------
    sources
        Python files, modules, folders, manifests, MCP servers, OpenAPI documents.
    format
        The format, of this package or of an installed one.
    skill
        The folder to write. Its name is that of the skill.
    strict
        Make the schemas strict where the provider has strict tools. The names of the others are printed to stderr.
    output
        The file to write instead of stdout.
    force
        Replace the file or the skill if there is one. It stays unchanged if the command fails.
    """
    if (format is None) == (skill is None):
        raise UsageError("Write --format FORMAT, or --skill FOLDER.")
    if format is not None:
        require_format(format)
    with open_toolkit(sources, options) as kit:
        if format is None:
            _write_skill(kit, skill or Path(), sources, force=force)
            return load_status(kit, options)
        chosen: dict[str, Any] = {"strict": True} if strict else {}
        exported = kit.to(format, **chosen)
        if strict and (names := _names_without_strict(exported)):
            print_message(f"Not strict in the format {format!r}: {', '.join(names)}. `ahvn-tools check` says why.")
        if output is None:
            print_json(exported)
        else:
            write_text(output, to_json(exported) + "\n", replaces=force)
        return load_status(kit, options)


def _write_skill(kit: Toolkit, folder: Path, sources: Sequence[str | Path], *, force: bool) -> None:
    try:
        left_out = kit.to_skill(folder, source=sources, replace=force)
    except ToolkitError as error:
        raise CommandError(str(error).replace("replace=True", "--force")) from None
    except OSError as error:
        raise CommandError(f"{folder} cannot be written: {error.strerror}.") from error
    count = sum(definition.name not in left_out for definition in kit.definitions())
    print_message(f"Wrote the skill {folder.name!r} with {plural(count, 'tool')} to {folder}.")
    for reason in dict.fromkeys(left_out.values()):
        names = ", ".join(name for name, why in left_out.items() if why == reason)
        print_message(f"Left out, because {reason.replace('its group', 'the group')}: {names}.")


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


def prompt(*sources: Sources, calling: Flag = False, notes: Flag = False, options: SourceParameters = None) -> int:
    """Print the tools of active groups as text for a model: the signature and the docstring of each; then the skills.

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
        texts += [text for text in (kit.skills_prompt(), kit.notes if notes else "") if text]
        print_text("\n\n".join(texts))
        return load_status(kit, options)


def pin(
    *sources: Sources,
    output: Annotated[Path, Parameter(name=["--output", "-o"])] = Path("tools.lock"),
    options: SourceParameters = None,
) -> None:
    """Write the definitions and fingerprints of tools to a lock file, for `check --lock` and `diff`.

    The file contains what models see: no bound value, no state. The same tools give the same text, so it can be
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
    count = plural(len(definitions), "tool")
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


_STYLES: Final = {"removed": "bold red", "breaking": "bold red", "compatible": "cyan", "added": "green"}

SHORT_FINGERPRINT = 12
"""How many digits of a fingerprint the text shows."""


def diff(
    old: Annotated[str | Path, Parameter(name="OLD")],
    new: Annotated[str | Path, Parameter(name="NEW")],
    /,
    *,
    fail_on: Literal["breaking", "any", "never"] = "breaking",
    json: Flag = False,
    options: SourceParameters = None,
) -> int:
    """Compare two sources, or a lock file and a source: tools that were added, removed or changed.

    A change is breaking if a call that was valid may be refused, or a result may not fit the output schema of before.
    The exit status is 1 if a tool was removed or has a breaking change.

    Parameters
    ----------
    old
        The tools of before: a source, or a file that `ahvn-tools pin` wrote.
    new
        The tools of now: a source or such a file.
    fail_on
        Which changes make the exit status 1: breaking ones, any, or none.
    json
        Print the changes as JSON.
    """
    from ahvn_tools import definition_lock

    before, after = (_read(source, options) for source in (old, new))
    changes = definition_lock.compare(before, after)
    groups: dict[str, dict[str, tuple[str, ...]]] = {
        "removed": dict.fromkeys(changes.removed, ()),
        "breaking": changes.breaking,
        "compatible": changes.compatible,
        "added": dict.fromkeys(changes.added, ()),
    }
    fingerprints = [{one.name: one.fingerprint for one in definitions} for definitions in (before, after)]
    rows = [
        {
            "tool": name,
            "change": word,
            "reasons": list(reasons),
            "old": fingerprints[0].get(name),
            "new": fingerprints[1].get(name),
        }
        for word, tools in groups.items()
        for name, reasons in tools.items()
    ]
    summary = {word: len(tools) for word, tools in groups.items()}
    if json:
        print_json({"changes": rows, "summary": summary})
    else:
        _print_rows(rows, summary)
    is_breaking = bool(changes.removed or changes.breaking)
    return int(is_breaking if fail_on == "breaking" else bool(changes) and fail_on == "any")


def _read(source: str | Path, options: LoadingOptions | None) -> list[ToolDefinition]:
    from ahvn_tools import definition_lock

    if definition_lock.is_lock_file(source):
        return read_lock(source, options)
    with open_toolkit([source], options) as kit:
        require_complete(kit, options)
        return [spec.definition for spec in kit]


def _print_rows(rows: list[dict[str, Any]], summary: dict[str, int]) -> None:
    for row in rows:
        old, new = ((row[key] or "none")[:SHORT_FINGERPRINT] for key in ("old", "new"))
        print_words(row["change"], f": {row['tool']} ({old} -> {new})", styles=_STYLES)
        for reason in row["reasons"]:
            print_text(f"    {escape_line(reason)}")
    if not rows:
        print_text("No differences.")
        return
    print_text("\n" + ", ".join(f"{count} {word}" for word, count in summary.items() if count) + ".")


def read_lock(path: str | Path, options: LoadingOptions | None) -> list[ToolDefinition]:
    """Return the definitions in a lock file that `--include`, `--exclude` and `--tag` select.

    A definition has no group and no audience: for these, the file is taken as a whole. Raises SourceError.
    """
    from ahvn_tools import definition_lock

    options = options or LoadingOptions()
    tags = set(options.tag or ())
    is_included = to_name_condition(options)
    return [
        definition
        for definition in definition_lock.read(path)
        if is_included(definition) and (not tags or tags & definition.tags)
    ]
