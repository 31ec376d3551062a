"""A toolkit as a skill: a folder that says how to call its tools with the command `ahvn-tools`."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ahvn_tools import invisible, text
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import ToolkitError, clip
from ahvn_tools.formats.rendering.names import wire_name
from ahvn_tools.redaction.credentials import mask_credentials
from ahvn_tools.schema.refs import resolve_ref
from ahvn_tools.skills import SKILL_FILE
from ahvn_tools.skills.skill import MAX_DESCRIPTION_CHARS, MAX_FILES, is_standard_name

_COMPATIBILITY: Final = "Requires the command ahvn-tools, of the Python package ahvn-tools."
_MAX_SUMMARY_CHARS: Final = 200
_PLACEHOLDERS: Final[Mapping[str, Any]] = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}

_BODY: Final = """
# {name}

Each tool is called by a command, with its arguments as one JSON object:

```sh
{call} '{{"NAME": "VALUE"}}'
```

{where}For arguments with quotes or many lines, write `-` in place of the object, and the object to stdin. The result
is on stdout. The exit status is 0, 1 for an error of the tool, and 2 for wrong arguments: stderr says what is wrong.

Read the file of a tool before you call it.

| tool | what it does | file |
|---|---|---|
{rows}
"""

_REFERENCE: Final = """# {name}

{description}

```sh
{call}
```

The JSON Schema of its arguments:

{fence}json
{schema}
{fence}
"""


def make_files(
    name: str,
    definitions: Sequence[ToolDefinition],
    sources: Sequence[str],
    description: str | None = None,
) -> dict[str, str]:
    """Return the texts of the files of a skill by their paths. Raises ToolkitError for what cannot be one."""
    if not is_standard_name(name):
        raise ToolkitError(
            f"A skill has the name of its folder, and {name!r} cannot be one: use lowercase letters, digits and single "
            "hyphens, at most 64 characters."
        )
    if not sources or any(mask_credentials(one) != one or invisible.find_in_name(one) for one in sources):
        fix = "without credentials and line breaks in them"
        raise ToolkitError(f"Name the sources of the tools, as `ahvn-tools` takes them, {fix}.")
    if not 0 < len(definitions) < MAX_FILES:
        problem = f"A skill has 1 to {MAX_FILES - 1} tools, and here are {len(definitions)}"
        raise ToolkitError(f"{problem}: add tools or activate their groups, or select fewer.")
    paths = {definition.name: f"references/{wire_name(definition.name)}.md" for definition in definitions}
    if len({path.casefold() for path in paths.values()}) < len(paths):  # some file systems ignore case
        paths = {tool: path.replace(".md", f"-{number}.md") for number, (tool, path) in enumerate(paths.items(), 1)}
    names = ", ".join(definition.name for definition in definitions)
    front_matter = {
        "name": name,
        "description": description or f"Calls tools by a command. Use it for what these do: {_shorten(names)}.",
        "compatibility": _COMPATIBILITY,
    }
    lines = [f"{key}: {_quote(value)}" for key, value in front_matter.items()]
    rows = [
        f"| `{_cell(one.name)}` | {_cell(_summary(one))} | [{paths[one.name]}]({paths[one.name]}) |"
        for one in definitions
    ]
    files_here = [f"`{_cell(one)}`" for one in sources if not os.path.isabs(one) and os.path.exists(one.split(":")[0])]  # noqa: PTH110, PTH117  # a text may be no path
    where = f"Run it in the folder that contains {' and '.join(files_here)}.\n\n" if files_here else ""
    body = _BODY.format(name=name, call=_command(sources, "TOOL"), where=where, rows="\n".join(rows))
    files = {SKILL_FILE: "\n".join(["---", *lines, "---", body])}
    return files | {paths[one.name]: _reference(one, sources) for one in definitions}


def _shorten(names: str) -> str:
    limit = MAX_DESCRIPTION_CHARS - 100
    return names if len(names) <= limit else f"{names[:limit].rpartition(',')[0]} and others"


def _quote(value: str) -> str:
    return json.dumps(invisible.escape(value), ensure_ascii=False)  # a JSON text is a YAML text


def _command(sources: Sequence[str], tool: str) -> str:
    first, *others = map(shlex.quote, sources)
    return " ".join(
        ["ahvn-tools call", first, shlex.quote(invisible.escape_line(tool)), *(f"--source {other}" for other in others)]
    )


def _summary(definition: ToolDefinition) -> str:
    return clip(" ".join(definition.description.partition("\n\n")[0].split()), _MAX_SUMMARY_CHARS)


def _cell(value: str) -> str:
    return invisible.escape_line(value).replace("|", "\\|").replace("`", "'").replace("](", "] (")


def _reference(definition: ToolDefinition, sources: Sequence[str]) -> str:
    schema = invisible.escape(json.dumps(definition.input_schema, indent=2, ensure_ascii=False))
    arguments = json.dumps(_example(definition.input_schema), ensure_ascii=False)
    longest = max(map(len, re.findall("`+", schema)), default=0)
    description = invisible.escape(text.docstring(definition)) or "It has no description."
    return _REFERENCE.format(
        name=_cell(definition.name),
        description="\n".join(f"> {line}".rstrip() for line in description.split("\n")),
        call=f"{_command(sources, definition.name)} {shlex.quote(invisible.escape(arguments))}",
        fence="`" * max(3, longest + 1),
        schema=schema,
    )


def _example(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of the right form: of each required parameter a value of its schema, or one of its type."""
    nodes = {name: schema.get("properties", {}).get(name) for name in schema.get("required", ())}
    return {name: _placeholder(resolve_ref(node, dict(schema)) if node else {}) for name, node in nodes.items()}


def _placeholder(node: Any) -> Any:
    values = [*node.get("examples", ()), *node.get("enum", ())] if isinstance(node, dict) else []
    return values[0] if values else _PLACEHOLDERS.get(str(isinstance(node, dict) and node.get("type")), "…")


def write_skill(folder: Path, files: Mapping[str, str], *, replaces: bool) -> None:
    """Write a folder with these files, whole or not at all. It `replaces` a skill that is there, and nothing else.

    Raises ToolkitError for a folder that is there, and OSError.
    """
    _refuse(folder, replaces=replaces)
    made = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        new, old = made / "new", made / "old"
        for name, content in files.items():
            (new / name).parent.mkdir(parents=True, exist_ok=True)
            _write(new / name, content)
        with contextlib.suppress(FileNotFoundError):
            folder.rename(old)
        try:
            new.rename(folder)
        except BaseException:
            if old.exists():
                old.rename(folder)
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _refuse(folder: Path, *, replaces: bool) -> None:
    if not os.path.lexists(folder):
        return
    if folder.is_symlink() or not (folder / SKILL_FILE).is_file():
        raise ToolkitError(f"{str(folder)!r} is there and is no skill: choose another folder, or remove it.")
    if not replaces:
        raise ToolkitError(f"There is a skill in {str(folder)!r} already: it is replaced only with replace=True.")


def _write(path: Path, content: str) -> None:
    with path.open("x", encoding="utf-8", newline="\n") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def to_sources(source: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return one source, or several, as texts."""
    return [os.fspath(one) for one in ([source] if isinstance(source, str | os.PathLike) else source)]
