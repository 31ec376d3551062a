"""`ahvn-tools new`: write a small working file to start from, with a test."""

from __future__ import annotations

import builtins
import keyword
import shlex
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from string import Template
from typing import Annotated, Final, Literal

from cyclopts import Parameter

from ahvn_tools.cli.output import CommandError, UsageError, print_text
from ahvn_tools.cli.output_file import OutputFile

Kind = Literal["tool", "registry", "toolkit"]

DEFAULT_NAMES: Final[Mapping[Kind, str]] = {"tool": "count_words", "registry": "notes", "toolkit": "notes"}

MAX_NAME_CHARS: Final = 24
"""The length up to which no line of the files becomes too long."""

_TOOLKIT_FILE: Final = "toolkit.yaml"


def new(
    kind: Annotated[Kind, Parameter(name="KIND")],
    name: Annotated[str | None, Parameter(name="NAME")] = None,
    /,
    *,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
) -> None:
    """Write a small working file to start from, with a test. No file is overwritten.

    Parameters
    ----------
    kind
        tool: a function. registry: a class whose methods are tools. toolkit: functions, and a manifest for them.
    name
        The name of the module, and of the tool, registry or toolkit in it.
    output
        The Python file, or the folder to write to: the current one by default.
    """
    folder, module = _choose_place(kind, name, output)
    files = _make_files(kind, folder, module)
    for path in files:
        if path.exists() or path.is_symlink():
            raise CommandError(f"{str(path)!r} exists: nothing was written. Choose another name, or -o FOLDER.")
    for path, text in files.items():
        with OutputFile.open(path, makes_folders=True) as file:
            file.write(text.encode(), replaces=False)
    _print_next_steps(kind, folder, module, list(files))


def _choose_place(kind: Kind, name: str | None, place: Path | None) -> tuple[Path, str]:
    """Return the folder and the name of the module. Raises UsageError for a name that does not fit."""
    if place is not None and place.suffix == ".py":
        if name is not None and name != place.stem:
            raise UsageError(f"The name {name!r} and the file {place.name!r} differ: leave one of them out.")
        folder, module = place.parent, place.stem
    else:
        folder, module = place or Path(), name or DEFAULT_NAMES[kind]
    _check_name(module)
    return folder, module


def _check_name(name: str) -> None:
    if not (name.isidentifier() and name.isascii() and name.islower()) or name.startswith(("_", "test_")):
        rule = "must be a Python name in lower case, such as find_notes, and not start with _ or test_"
    elif keyword.iskeyword(name) or keyword.issoftkeyword(name) or hasattr(builtins, name):
        rule = "is a word of Python"
    elif name in sys.stdlib_module_names or name in {"ahvn_tools", "pytest", "tool"}:
        rule = "is the name of another module"
    elif len(name) > MAX_NAME_CHARS:
        rule = f"has more than {MAX_NAME_CHARS} characters"
    else:
        return
    raise UsageError(f"The name {name!r} {rule}. Choose another one.")


def _make_files(kind: Kind, folder: Path, module: str) -> dict[Path, str]:
    """Return the texts of the files by their paths."""
    names = {f"{kind}.py": f"{module}.py", f"test_{kind}.py": f"test_{module}.py"}
    if kind == "toolkit":
        names[_TOOLKIT_FILE] = _TOOLKIT_FILE
    words = {"name": module, "class_name": "".join(part.capitalize() for part in module.split("_"))}
    templates = resources.files("ahvn_tools.cli") / "new_files"
    return {
        folder / path: Template((templates / f"{template}.txt").read_text(encoding="utf-8")).substitute(words)
        for template, path in names.items()
    }


def _print_next_steps(kind: Kind, folder: Path, module: str, files: list[Path]) -> None:
    source = shlex.quote(str(folder / (_TOOLKIT_FILE if kind == "toolkit" else f"{module}.py")))
    call = {"tool": f"{module} text='to be or not to be'"}.get(kind, "find word=plants")
    print_text("Written:")
    for path in files:
        print_text(f"  {path}")
    print_text("Next:")
    for line in (
        f"ahvn-tools list {source}",
        f"ahvn-tools call {source} {call}",
        f"python -m pytest {shlex.quote(str(folder / f'test_{module}.py'))}",
        f"ahvn-tools serve {source}",
    ):
        print_text(f"  {line}")
