"""The state of calls: the options `--state`, a file with a JSON or YAML mapping, and `--set`, single values."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ahvn_tools.cli.call_arguments import read_assignments
from ahvn_tools.cli.errors import UsageError
from ahvn_tools.errors import SourceError, StateKeyError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.regular_file import read_bounded
from ahvn_tools.state import StateKey


def read_state(file: Path | None, assignments: Iterable[str]) -> JsonObject:
    """Return the mapping in a file, with `KEY=VALUE` words over it. Raises UsageError, without any value in it."""
    state = {} if file is None else _read_file(file)
    for key, value in read_assignments(assignments, "set").items():
        try:
            StateKey.parse(key).write(state, value)
        except StateKeyError as error:
            raise UsageError(f"--set: {error}") from None
    return state


def _read_file(file: Path) -> JsonObject:
    try:
        with file.open("rb") as opened:
            text = read_bounded(opened).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise UsageError(f"The state file {str(file)!r} cannot be read: {reason}.") from None
    data = _parse_yaml(file, text) if file.suffix in {".yaml", ".yml"} else _parse_json(file, text)
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise UsageError(f"The state file {str(file)!r} must contain a mapping with texts as keys.")
    return data


def _parse_json(file: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        line = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise UsageError(f"The state file {str(file)!r} is no JSON{line}. A YAML file ends with .yaml.") from None


def _parse_yaml(file: Path, text: str) -> Any:
    from ahvn_tools.loading.yaml_file import read_yaml  # slow, and few calls need it

    try:
        return read_yaml(text).value
    except SourceError as error:
        line = f", line {error.line}" if error.line is not None else ""
        raise UsageError(f"The state file {str(file)!r} is no YAML{line}.") from None
