"""FastMCP's dependency injection (`Context`, `Depends`): which parameters it fills, and a body that requests them."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, get_args

from ahvn_tools.errors import DefinitionError, ToolError
from ahvn_tools.schema.annotations import UnresolvedAnnotation

_END: Final = object()
"""What the iterator of a sync generator gives after the last item."""

FASTMCP_PACKAGES = frozenset({"fastmcp", "uncalled_for"})
"""Unless one of them is imported, no function has parameters that FastMCP injects."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class InjectedBody:
    """A body that takes the visible parameters; FastMCP resolves the injected ones for each call."""

    function: Callable[..., Any]
    full_signature: inspect.Signature
    visible_signature: inspect.Signature
    """The signature without the injected parameters."""
    signature_stub: Callable[..., Any]
    """Passed to FastMCP instead of the function: FastMCP's cache would keep a method's instance alive."""
    uses_thread: bool
    """Whether the function is sync and runs in one of FastMCP's threads."""

    @property
    def __self__(self) -> Any:
        """The instance whose method runs; None for a function."""
        return getattr(self.function, "__self__", None)

    def with_function(self, function: Callable[..., Any]) -> InjectedBody:
        """Return the body of the same method on another instance."""
        return replace(self, function=function)

    async def __call__(self, *args: Any, **arguments: Any) -> Any:
        """Run the function. Dependencies stay open until it has yielded its last item."""
        from fastmcp.server.dependencies import resolve_dependencies

        visible = dict(self.visible_signature.bind(*args, **arguments).arguments)
        async with contextlib.AsyncExitStack() as dependencies:
            with needing_context(self.signature_stub.__name__):
                values = await dependencies.enter_async_context(resolve_dependencies(self.signature_stub, visible))
            named: Any = {name: values[name] for name in self.full_signature.parameters if name in values}
            call = inspect.BoundArguments(self.full_signature, named)
            returned = await self._run(functools.partial(self.function, *call.args, **call.kwargs))
            if inspect.isawaitable(returned):
                returned = await returned
            if inspect.isgenerator(returned) or inspect.isasyncgen(returned):
                # the caller iterates, so that its limits and its timeout apply
                return self._iterate(returned, dependencies.pop_all())
            return returned

    async def _iterate(self, items: Any, dependencies: contextlib.AsyncExitStack) -> AsyncIterator[Any]:
        async with dependencies:
            if inspect.isasyncgen(items):
                async with contextlib.aclosing(items):
                    async for item in items:
                        yield item
                return
            with contextlib.closing(items):
                while (item := await self._run(functools.partial(next, items, _END))) is not _END:
                    yield item

    async def _run(self, function: Callable[[], Any]) -> Any:
        from fastmcp.utilities.async_utils import call_sync_fn_in_threadpool

        return await call_sync_fn_in_threadpool(function) if self.uses_thread else function()


def declared_options(function: Any) -> dict[str, Any]:
    """Return the options of FastMCP's `@tool` above a function that mean the same here."""
    declared = getattr(function, "__fastmcp__", None)
    if getattr(declared, "type", None) != "tool":
        return {}
    names = ("name", "title", "description", "icons", "tags", "annotations", "meta", "timeout")
    options = {name: value for name in names if (value := getattr(declared, name, None)) is not None}
    if (version := getattr(declared, "version", None)) is not None:
        options["version"] = str(version)
    if isinstance(schema := getattr(declared, "output_schema", ...), dict | None):
        options["output_schema"] = schema
    return options


@contextlib.contextmanager
def needing_context(tool: str) -> Iterator[None]:
    """Raise ToolError for FastMCP's error about a Context, which only calls through its servers have."""
    try:
        yield
    except RuntimeError as error:
        if "No active context found" in f"{error} {error.__cause__}":
            raise ToolError(
                f"{tool!r} needs FastMCP's Context, which only a call through an MCP server has: serve the toolkit, "
                "add the server with `add_mcp`, or use a ToolContext in place of the Context."
            ) from error
        raise


def wrap_injected_function(
    name: str,
    function: Callable[..., Any],
    signature: inspect.Signature,
    resolved: Mapping[str, Any],
    fixed: Collection[str],
    *,
    uses_thread: bool,
) -> InjectedBody | None:
    """Return a body for a function that FastMCP injects into; None for any other function.

    A parameter in `fixed` has a value and is not injected. Raises DefinitionError if FastMCP refuses the function.
    """
    parameters = [parameter for key, parameter in signature.parameters.items() if key not in fixed]
    if not any(
        _is_from_fastmcp(parameter.default) or _is_from_fastmcp(resolved[parameter.name]) for parameter in parameters
    ):
        return None
    stub = _make_signature_stub(name, parameters, resolved)
    try:
        visible_names = _visible_names(stub)
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"FastMCP cannot inject into {name!r}: {error}.") from error
    injected_names = {parameter.name for parameter in parameters} - visible_names
    if not injected_names:
        return None
    visible = [parameter for key, parameter in signature.parameters.items() if key not in injected_names]
    return InjectedBody(
        function=function,
        full_signature=signature,
        visible_signature=signature.replace(parameters=visible),
        signature_stub=stub,
        uses_thread=uses_thread,
    )


def _make_signature_stub(
    name: str, parameters: list[inspect.Parameter], resolved: Mapping[str, Any]
) -> Callable[..., Any]:
    """Return an empty function with these parameters and those annotations that FastMCP reads."""

    def stub() -> None:
        """Do nothing."""

    stub.__name__ = stub.__qualname__ = name
    stub.__annotations__ = {p.name: resolved[p.name] for p in parameters if _is_from_fastmcp(resolved[p.name])}
    annotations = stub.__annotations__
    visible = [p.replace(kind=p.KEYWORD_ONLY, annotation=annotations.get(p.name, p.empty)) for p in parameters]
    stub.__signature__ = inspect.Signature(visible)  # type: ignore[attr-defined]  # inspect.signature prefers it
    return stub


def _visible_names(signature_stub: Callable[..., Any]) -> set[str]:
    """Return the names of the parameters that FastMCP does not fill."""
    from fastmcp.server.dependencies import transform_context_annotations, without_injected_parameters

    return set(inspect.signature(without_injected_parameters(transform_context_annotations(signature_stub))).parameters)


def _is_from_fastmcp(part: Any) -> bool:
    """Return whether a default or an annotation contains a FastMCP type; FastMCP itself decides what it injects."""
    if isinstance(part, UnresolvedAnnotation):
        return False
    part = getattr(part, "__value__", part) if type(part).__name__ == "TypeAliasType" else part
    kind = part if isinstance(part, type) else type(part)
    roots = {base.__module__.partition(".")[0] for base in kind.__mro__}
    return not roots.isdisjoint(FASTMCP_PACKAGES) or any(map(_is_from_fastmcp, get_args(part)))


def function_of(body: Any) -> Callable[..., Any]:
    """Return the function of a body."""
    function: Callable[..., Any] = body.function if isinstance(body, InjectedBody) else body
    return function
