"""The middleware that manifests name, and the options that YAML can hold."""

from __future__ import annotations

import functools
import inspect
import logging
import re
from pathlib import Path

import pytest

from ahvn_tools import middleware
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.loading.options import ReadOptions
from ahvn_tools.manifest.middleware_table import MIDDLEWARE, build, to_item
from ahvn_tools.middleware.factory import factory_call

CANARY = "canary-57c1e0a2-with-more-than-16-characters"

NOT_YAML = {"approver", "exceptions", "meter", "tracer"}
"""Options that are functions, classes or objects."""

SAMPLES = {
    "approve": {"when": False},
    "cache": {"ttl": 3.5, "size": 2, "tools": ["a", "b"]},
    "limit": {"per_second": 3, "wait": 0.5},
    "log": {"logger": "audit", "level": "warning", "results": False, "redact": [r"sk-[\w-]+"]},
    "metrics": {},
    "record": {"path": "calls.jsonl"},
    "replay": {"path": "calls.jsonl", "allow_changed": True},
    "retry": {"attempts": 5, "codes": ["timeout"], "all_tools": True},
    "trace": {"content": True},
    "truncate": {"max_chars": 100},
}


def test_each_function_of_the_package_that_makes_middleware_is_in_the_table():
    assert set(MIDDLEWARE) == {name for name in middleware.__all__ if name.islower()} - {"inline", "observe"}


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
def test_a_middleware_is_made_of_an_item_and_becomes_that_item_again(name, tmp_path):
    if name == "replay":
        build("record", {"path": "calls.jsonl"}, ReadOptions(folder=tmp_path))
    made = build(name, SAMPLES[name], ReadOptions(folder=tmp_path))
    assert factory_call(made).name == name
    assert to_item(made, tmp_path) == ({name: SAMPLES[name]} if SAMPLES[name] else name)
    assert to_item(build(name, dict(SAMPLES[name]), ReadOptions(folder=tmp_path)), tmp_path) == to_item(made, tmp_path)


def test_positional_options_and_sets_have_names_and_an_order_in_an_item():
    assert to_item(middleware.retry(4, tools={"b", "a"}), None) == {"retry": {"attempts": 4, "tools": ["a", "b"]}}
    assert to_item(middleware.log("audit", logging.DEBUG), None) == {"log": {"logger": "audit", "level": "debug"}}


def test_a_path_outside_of_the_folder_is_written_in_full(tmp_path):
    made = middleware.record(tmp_path / "calls.jsonl")
    assert to_item(made, tmp_path / "other") == {"record": {"path": str(tmp_path / "calls.jsonl")}}
    assert to_item(made, None) == {"record": {"path": str(tmp_path / "calls.jsonl")}}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda _: middleware.log(print), "YAML cannot hold the option 'logger' of `log`"),
        (lambda _: middleware.log(redact=str.upper), "YAML cannot hold the option 'redact' of `log`"),
        (lambda _: middleware.log(redact=[re.compile("a")]), "YAML cannot hold the option 'redact' of `log`"),
        (lambda _: middleware.log(level=15), "YAML cannot hold the option 'level' of `log`"),
        (lambda _: middleware.approve(print), "YAML cannot hold the option 'approver' of `approve`"),
        (lambda _: middleware.approve(when=lambda call: True), "YAML cannot hold the option 'when' of `approve`"),
        (lambda folder: middleware.record(folder / "a", secret_key=CANARY), "its option 'secret_key' is a secret"),
        (lambda _: middleware.retry(exceptions=(KeyError,)), "YAML cannot hold the option 'exceptions' of `retry`"),
        (lambda _: middleware.observe(print), "YAML cannot hold the function of `observe`"),
        (lambda _: _wrapped(middleware.log()), "it was not made by `ahvn_tools.middleware`"),
        (lambda _: print, "it was not made by `ahvn_tools.middleware`"),
    ],
)
def test_what_yaml_cannot_hold_is_an_error_without_its_value(make, message, tmp_path):
    with pytest.raises(ToolSpecError) as error:
        to_item(make(tmp_path), Path.cwd())
    assert message in str(error.value)
    assert CANARY not in str(error.value)


def _wrapped(inner):
    @functools.wraps(inner)
    async def wrapped(call, next):
        return await inner(call, next)

    return wrapped
