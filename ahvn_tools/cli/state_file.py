"""A file with the state of a call: a JSON or YAML mapping."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ahvn_tools.cli.errors import UsageError
from ahvn_tools.json_types import JsonObject


def read_state(file: Path) -> JsonObject:
    """Return the mapping in a file. Raises UsageError, without any part of its content."""
    try:
        text = file.read_text(encoding="utf-8-sig")
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
    import yaml  # slow, and few calls need it

    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506  # both are safe
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise UsageError(f"The state file {str(file)!r} is no YAML{line}.") from None
