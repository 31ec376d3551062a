"""FastMCP's own injection (`Context`, `Depends`): which parameters it fills, and a body that lets it fill them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

from ahvn_tools.errors import DefinitionError
from ahvn_tools.schema.annotations import UnresolvedAnnotation

_FASTMCP_PACKAGES = frozenset({"fastmcp", "uncalled_for"})


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class InjectedBody:
    """A body that takes the other parameters: FastMCP resolves the injected ones around each call."""

    function: Callable[..., Any]
    full_signature: inspect.Signature
    visible_signature: inspect.Signature
    """The signature without the injected parameters."""
    signature_stub: Callable[..., Any]
    """What FastMCP is asked about. It keeps that for good, so it is not the function: no instance hangs on it."""
    is_async: bool
    run_in_thread: bool

    @property
    def __self__(self) -> Any:
        """The instance whose method runs; None for a function."""
        return getattr(self.function, "__self__", None)

    def with_function(self, function: Callable[..., Any]) -> InjectedBody:
        """Return the body of the same method on another instance."""
        return replace(self, function=function)

    async def __call__(self, *args: Any, **arguments: Any) -> Any:
        """Run the function. Dependencies are open until it has made its last item."""
        from fastmcp.server.dependencies import resolve_dependencies

        given = dict(self.visible_signature.bind(*args, **arguments).arguments)
        async with resolve_dependencies(self.signature_stub, given) as values:
            named: Any = {name: values[name] for name in self.full_signature.parameters if name in values}
            return await self._run(inspect.BoundArguments(self.full_signature, named))

    async def _run(self, bound_arguments: inspect.BoundArguments) -> Any:
        if self.run_in_thread and not self.is_async:
            from fastmcp.utilities.async_utils import call_sync_fn_in_threadpool

            returned = await call_sync_fn_in_threadpool(self._call_function, bound_arguments)
        else:
            returned = self._call_function(bound_arguments)
        if inspect.isawaitable(returned):
            returned = await returned
        return [item async for item in returned] if inspect.isasyncgen(returned) else returned

    def _call_function(self, bound_arguments: inspect.BoundArguments) -> Any:
        returned = self.function(*bound_arguments.args, **bound_arguments.kwargs)
        return list(returned) if inspect.isgenerator(returned) else returned

    def __reduce__(self) -> Any:
        """Travel as the function: over there the recipe is made again."""
        return _unchanged, (self.function,)


def wrap_injected_function(
    name: str,
    function: Callable[..., Any],
    signature: inspect.Signature,
    resolved: Mapping[str, Any],
    fixed: Collection[str],
    *,
    is_async: bool,
    run_in_thread: bool,
) -> InjectedBody | None:
    """Return the body of a function with FastMCP's injection; None for any other function.

    A parameter in `fixed` has its value and is not injected. Raises DefinitionError for what FastMCP refuses.
    """
    parameters = [parameter for key, parameter in signature.parameters.items() if key not in fixed]
    if _FASTMCP_PACKAGES.isdisjoint(sys.modules) or not any(
        _is_from_fastmcp(parameter.default) or _is_from_fastmcp(resolved[parameter.name]) for parameter in parameters
    ):
        return None
    request = _make_signature_stub(name, parameters, resolved)
    try:
        shown = _visible_names(request)
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"FastMCP cannot inject into {name!r}: {error}.") from error
    names = {parameter.name for parameter in parameters} - shown
    if not names:
        return None
    visible = [parameter for key, parameter in signature.parameters.items() if key not in names]
    return InjectedBody(
        function=function,
        full_signature=signature,
        visible_signature=signature.replace(parameters=visible),
        signature_stub=request,
        is_async=is_async,
        run_in_thread=run_in_thread,
    )


def _make_signature_stub(
    name: str, parameters: list[inspect.Parameter], resolved: Mapping[str, Any]
) -> Callable[..., Any]:
    """Return a stand-in with the parameters, whose annotations are resolved where FastMCP has to read them."""

    def request() -> None:
        """Stand in for the function."""

    request.__name__ = request.__qualname__ = name
    request.__annotations__ = {p.name: resolved[p.name] for p in parameters if _is_from_fastmcp(resolved[p.name])}
    request.__signature__ = inspect.Signature([  # type: ignore[attr-defined]  # what inspect.signature reads first
        inspect.Parameter(
            p.name, p.KEYWORD_ONLY, default=p.default, annotation=request.__annotations__.get(p.name, p.empty)
        )
        for p in parameters
    ])  # fmt: skip
    return request


def _visible_names(signature_stub: Callable[..., Any]) -> set[str]:
    """Return the names of the parameters that FastMCP does not fill."""
    from fastmcp.server.dependencies import transform_context_annotations, without_injected_parameters

    return set(inspect.signature(without_injected_parameters(transform_context_annotations(signature_stub))).parameters)


def _is_from_fastmcp(thing: Any) -> bool:
    """Tell whether a default or an annotation has something of FastMCP's in it; FastMCP itself decides the rest."""
    if isinstance(thing, UnresolvedAnnotation):
        return False
    thing = getattr(thing, "__value__", thing) if type(thing).__name__ == "TypeAliasType" else thing
    kind = thing if isinstance(thing, type) else type(thing)
    roots = {base.__module__.partition(".")[0] for base in kind.__mro__}
    return not roots.isdisjoint(_FASTMCP_PACKAGES) or any(map(_is_from_fastmcp, get_args(thing)))


def _unchanged(function: Callable[..., Any]) -> Callable[..., Any]:
    return function
