"""A file with the state of a call: a JSON or YAML mapping."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ahvn_tools.cli.errors import UsageError
from ahvn_tools.errors import SourceError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.regular_file import read_bounded


def read_state(file: Path) -> JsonObject:
    """Return the mapping in a file. Raises UsageError, without any part of its content."""
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
