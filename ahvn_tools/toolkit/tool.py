"""One tool seen through a toolkit: a ToolSpec whose name, bindings and calls are the toolkit's."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable, Generator, MutableMapping
from typing import Any, NoReturn, Self

from ahvn_tools.binding import Binding, StateScopes, bindable_parameters
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import BindError, PickleError, ToolkitError, near_misses
from ahvn_tools.execution.call import Middleware
from ahvn_tools.execution.compiled import CompiledTool
from ahvn_tools.results import ToolResult
from ahvn_tools.spec import ToolSpec
from ahvn_tools.state import UNSET, StateKey
from ahvn_tools.toolkit import calls
from ahvn_tools.toolkit.entry import Entry, EntryOptions
from ahvn_tools.toolkit.visibility import StoreView

JsonObject = dict[str, Any]


class ToolkitTool(ToolSpec):
    """A tool of a toolkit, view or session. Its calls run there; `bind` binds in that toolkit only."""

    def __init__(self, view: StoreView, entry: Entry) -> None:
        """Take a view and one of its tools."""
        self._view = view
        self._entry = entry
        self._lock = threading.Lock()
        self._adapter = None
        self.examples = entry.spec.examples

    @property
    def _compiled(self) -> CompiledTool:  # type: ignore[override]  # made when asked for, where a spec keeps it
        return self._view.compiled_tool(self._entry)

    @property
    def _body(self) -> Callable[..., Any]:  # type: ignore[override]  # as above
        return self._entry.spec.body

    @property
    def _secrets(self) -> frozenset[StateKey]:  # type: ignore[override]  # as above
        return self._view.store.secrets | self._entry.spec._secrets  # noqa: SLF001  # of its own kin

    @property
    def state_scopes(self) -> StateScopes:
        """The states that its calls ask: the session's, the toolkit's, then the spec's own."""
        return self._view.state_scopes(self._entry)

    @property
    def definition(self) -> ToolDefinition:
        """What a model is shown of it here."""
        return self._view.definition(self._entry)

    @property
    def group(self) -> str:
        """The one group that it is in."""
        return self._entry.group

    @property
    def audience(self) -> frozenset[str]:
        """Who may see and call it; empty: everyone."""
        return self._entry.audience

    @property
    def labels(self) -> EntryOptions:
        """What it brings along to another toolkit: what nobody may do here, nobody may do there."""
        entry = self._entry
        return {
            "group": entry.group,
            "audience": entry.audience,
            "requires_approval": entry.requires_approval,
            "exclusive": entry.exclusive,
        }

    def effective_middleware(self) -> tuple[Middleware, ...]:
        """Return what stands around its calls, outermost first: what another toolkit that takes it keeps to, too."""
        return (*self._view.store.middleware, *self._entry.middleware)

    @property
    def state(self) -> MutableMapping[str, Any]:
        """The state of the toolkit or session that the tool is seen through."""
        return self._view.session_state.state

    @state.setter
    def state(self, state: MutableMapping[str, Any]) -> None:
        raise ToolkitError(
            f"A tool in a toolkit has no state of its own to be set to a {type(state).__name__}: set `toolkit.state`."
        )

    def bind(
        self,
        param: str,
        state_key: str | None = None,
        default: Any = UNSET,
        *,
        resolver: Callable[..., Any] | None = None,
        secret: bool = False,
    ) -> Self:
        """Bind as a spec does, in this toolkit only; a default goes into the toolkit's state.

        Raises ToolkitError on a view or a session.
        """
        self._view.refuse_change("bind")
        parameters = self._compiled.template.inputs.parameters
        if param not in parameters:
            near = near_misses(param, bindable_parameters(parameters, self._compiled.bindings))
            raise BindError(f"{self.name!r} has no parameter {param!r}. {near}")
        self._entry.refuse_preset(param)
        self._refuse_constant(param)
        binding = Binding.create(param, state_key, default, resolver, is_secret=secret or parameters[param].is_secret)
        binding.store_default(default, self._view.session_state.state)
        self._view.store.bind_entry(self._entry, binding)
        return self

    def unbind(self, param: str) -> Self:
        """Take back what `bind` did here. What the toolkit, or the spec itself, has bound stays bound.

        Raises ToolkitError on a view or a session, BindError for a preset parameter.
        """
        self._view.refuse_change("unbind")
        self._entry.refuse_preset(param)
        self._view.store.unbind_entry(self._entry, param)
        return self

    def clone(self) -> ToolSpec:  # type: ignore[override]  # a copy belongs to no toolkit
        """Return a spec that is in no toolkit: bound as here, with the state of the spec that was added."""
        twin = self._entry.spec.clone()
        twin._compiled = self._compiled  # noqa: SLF001  # of its own kin
        twin._secrets |= self._view.store.secrets  # noqa: SLF001  # as above
        return twin

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Refuse to be pickled: the toolkit, with all its states, stays where it is."""
        raise PickleError(
            f"{self.name!r} is seen through a toolkit, which cannot be pickled; send `tool.clone()`: "
            "it takes its bindings along, and the state of the spec that was added."
        )

    def _clear_cache(self) -> None:
        """Drop what is compiled: what is made for the toolkit is made of the spec's own."""
        self._entry.spec._clear_cache()  # noqa: SLF001  # of its own kin

    def call(self, /, *args: Any, **arguments: Any) -> Any:
        """Call in the toolkit and return the value, or raise as a spec does, or ToolNotAvailableError."""
        return calls.call(self._view, self._entry.name, arguments, _call_options(args))

    __call__ = call

    async def acall(self, /, *args: Any, **arguments: Any) -> Any:
        """Call in the toolkit and return the value, or raise as `call` does."""
        return await calls.acall(self._view, self._entry.name, arguments, _call_options(args))

    def exec(self, /, *args: Any, **arguments: Any) -> ToolResult:
        """Call in the toolkit and return a ToolResult."""
        return calls.execute(self._view, self._entry.name, arguments, _call_options(args))

    async def aexec(self, /, *args: Any, **arguments: Any) -> ToolResult:
        """Call in the toolkit and return a ToolResult."""
        return await calls.aexecute(self._view, self._entry.name, arguments, _call_options(args))

    def stream(self, /, *args: Any, **arguments: Any) -> Generator[ToolResult, None, None]:
        """Call in the toolkit and yield one result per item, then the whole."""
        return calls.stream(self._view, self._entry.name, arguments, _call_options(args))

    def astream(self, /, *args: Any, **arguments: Any) -> AsyncGenerator[ToolResult, None]:
        """Call in the toolkit and yield results as `stream` does."""
        return calls.astream(self._view, self._entry.name, arguments, _call_options(args))

    async def _serve(self, arguments: JsonObject) -> ToolResult:
        """Run a call that came over a wire."""
        return await calls.aexecute(self._view, self._entry.name, arguments, calls.CallOptions(is_served=True))


def _call_options(positional: tuple[Any, ...]) -> calls.CallOptions:
    return calls.CallOptions(positional=positional) if positional else calls.DEFAULT_OPTIONS
