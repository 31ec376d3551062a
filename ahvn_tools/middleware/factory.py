"""FactoryCall: which function of this package made a middleware, with its options; and which calls may be repeated."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ParamSpec

from ahvn_tools.execution.call import Call, Middleware

Options = ParamSpec("Options")

_ATTRIBUTE = "_factory_call"


@dataclass(frozen=True, kw_only=True)
class FactoryCall:
    """A call such as `retry(attempts=5)`."""

    name: str
    options: Mapping[str, Any] = field(repr=False)
    """The options that were passed; a secret may be among them."""


def remember_options(factory: Callable[Options, Middleware]) -> Callable[Options, Middleware]:
    """Let `factory_call` find out what each middleware of a factory was made with."""

    @functools.wraps(factory)
    def make(*args: Options.args, **kwargs: Options.kwargs) -> Middleware:
        middleware = factory(*args, **kwargs)
        setattr(middleware, _ATTRIBUTE, (weakref.ref(middleware), args, kwargs, factory))
        return middleware

    return make


def factory_call(middleware: Middleware) -> FactoryCall | None:
    """Return what a middleware was made with; None for one that no factory of this package made."""
    made_with = getattr(middleware, _ATTRIBUTE, None)
    if made_with is None:
        return None
    reference, args, kwargs, factory = made_with
    if reference() is not middleware:  # `functools.wraps` copies attributes to a middleware of the host
        return None
    options = inspect.signature(factory).bind(*args, **kwargs).arguments
    return FactoryCall(name=factory.__name__, options=options)


def idempotency_check(tools: str | Collection[str], *, all_tools: bool) -> Callable[[Call], bool]:
    """Return a test for calls that may be made twice: by name (`tools` may be a single one) or by annotations."""
    names = frozenset([tools] if isinstance(tools, str) else tools)

    def is_repeatable(call: Call) -> bool:
        return all_tools or call.name in names or call.has_hint("readOnlyHint", "idempotentHint")

    return is_repeatable
