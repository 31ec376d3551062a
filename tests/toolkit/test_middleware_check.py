"""Middleware that cannot work is refused where it is added, when that can be seen."""

from __future__ import annotations

import functools

import pytest

from ahvn_tools import Toolkit, middleware
from ahvn_tools.errors import ToolkitError
from ahvn_tools.middleware import Middleware, log


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


async def forget(call, next):
    await next(call)


async def take_one(call):
    return None


class Audit:
    async def __call__(self, call, next):
        await next(call)


def make() -> Middleware:
    return forget


SHIPPED = ["cache", "limit", "log", "metrics", "record", "replay", "retry", "trace", "truncate", "watch"]
REFUSED = {
    **{one.__name__: one for one in (take_one, Audit, make)},
    **{name: getattr(middleware, name) for name in SHIPPED},
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_middleware_that_cannot_work_is_refused_where_it_is_added(what):
    layer = REFUSED[what]
    for adding in (
        lambda: Toolkit("k", middleware=[layer]),
        lambda: Toolkit("k").use(layer),
        lambda: Toolkit("k").add(add, middleware=[layer]),
    ):
        with pytest.raises(ToolkitError, match=r"call a function that returns a middleware"):
            adding()


async def conditional(call, next):
    return await next(call) if call.name else None


async def forward(*parts):
    while True:
        return await parts[1](parts[0])


async def refuse(call, next):
    raise ValueError


@pytest.mark.parametrize("layer", [conditional, forward, refuse, lambda call, do: do(call), functools.partial(forward)])
def test_a_middleware_that_may_work_is_accepted(layer):
    result = Toolkit("k", middleware=[layer]).add(add).exec("add", {"a": 1})
    assert result.is_error == (layer is refuse)


@pytest.mark.parametrize("layer", [forget, Audit(), Audit().__call__, functools.partial(forget)])
def test_a_middleware_that_returns_nothing_is_an_error_of_its_first_call(layer):
    result = Toolkit("k", middleware=[layer]).add(add).exec("add", {"a": 1})
    assert result.is_error


def test_a_name_in_the_package_is_the_function_whichever_module_was_imported_first():
    from ahvn_tools.middleware.log import log as of_module

    assert log is of_module
    assert callable(middleware.truncate(10))
    assert all(callable(getattr(middleware, name)) for name in middleware.__all__ if name.islower())
    with pytest.raises(AttributeError, match="no attribute 'logs'"):
        _ = middleware.logs
