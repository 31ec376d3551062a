"""The middleware that manifests name, and the options that YAML can hold."""

from __future__ import annotations

import inspect
import logging

import pytest

from ahvn_tools import middleware
from ahvn_tools.loading.read_options import ReadOptions
from ahvn_tools.manifest.middleware_table import MIDDLEWARE, build

NOT_YAML = {"approver", "exceptions", "meter", "tracer"}
"""Options that are functions, classes or objects."""

SAMPLES = {
    "cache": {"ttl": 3.5, "size": 2, "tools": ["a", "b"]},
    "keep_large": {"max_chars": 5_000, "folder": "kept", "max_bytes": 10_000_000, "max_age": 60.5},
    "limit": {"per_second": 3, "wait": 0.5},
    "log": {"logger": "audit", "level": "warning", "results": False, "redact": [r"sk-[\w-]+"]},
    "metrics": {},
    "record": {"path": "calls.jsonl"},
    "replay": {"path": "calls.jsonl", "allow_changed": True},
    "retry": {"attempts": 5, "codes": ["timeout"], "all_tools": True},
    "trace": {"content": True},
    "truncate": {"max_chars": 100},
    "watch": {"path": "calls.jsonl"},
}


def test_each_function_of_the_package_that_makes_middleware_is_in_the_table():
    assert set(MIDDLEWARE) == {name for name in middleware.__all__ if name.islower()} - {"observe"}


@pytest.mark.parametrize("name", MIDDLEWARE)
def test_the_options_and_their_defaults_are_those_of_the_function(name):
    parameters = inspect.signature(getattr(middleware, name)).parameters
    fields = MIDDLEWARE[name].model_fields
    assert set(fields) == set(parameters) - NOT_YAML
    for option, field in fields.items():
        default = parameters[option].default
        if option == "level":
            default = logging.getLevelName(default).lower()
        expected = list(default) if isinstance(default, tuple) else default
        assert field.is_required() if default is inspect.Parameter.empty else field.default == expected, option


@pytest.mark.parametrize("name", SAMPLES)
def test_a_middleware_is_made_of_an_item(name, tmp_path, monkeypatch):
    (tmp_path / "calls.jsonl").touch()
    monkeypatch.setattr(middleware, name, dict, raising=False)
    changed = {"level": logging.WARNING, "path": tmp_path / "calls.jsonl", "folder": tmp_path / "kept"}
    made = build(name, SAMPLES[name], ReadOptions(folder=tmp_path))
    assert made == {option: changed.get(option, value) for option, value in SAMPLES[name].items()}
