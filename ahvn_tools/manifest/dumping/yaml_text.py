"""YAML text of plain data: keys in their order, short lists on one line, long texts as blocks."""

from __future__ import annotations

import re
from typing import Any

import yaml

_LIKE_A_NUMBER = re.compile(r"[-+.]?[0-9]")
"""Texts that YAML 1.2 may read as a number; PyYAML itself quotes those that YAML 1.1 does not read as texts."""

_BREAKS = re.compile("[\r\x85\u2028\u2029]")
"""Line breaks that a reader of YAML changes, unless they are escaped."""

_MAX_LINE = 100


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]  # PyYAML ships no types
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  # the signature of PyYAML
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002  # as above
        super().increase_indent(flow, indentless=False)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else "'" if _LIKE_A_NUMBER.match(text) else None
    if _BREAKS.search(text):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _represent_list(dumper: yaml.SafeDumper, items: list[Any]) -> yaml.SequenceNode:
    is_short = all(isinstance(item, str | int | float | None) for item in items) and len(str(items)) < _MAX_LINE
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=is_short)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(list, _represent_list)


def to_yaml(data: Any) -> str:
    """Return the text of dicts, lists, texts, numbers, booleans and None."""
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)
    return text
