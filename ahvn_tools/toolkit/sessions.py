"""SessionState: the state and the switches of a toolkit, session or request; sessions by id; clients; active calls."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from ahvn_tools.errors import ToolkitError
from ahvn_tools.toolkit.background_calls import BackgroundCalls, SessionContent
from ahvn_tools.toolkit.entry import Entry

if TYPE_CHECKING:
    from ahvn_tools.execution.call import CallScope
    from ahvn_tools.toolkit.approval_rules import Mode
    from ahvn_tools.toolkit.remembered_rules import RememberedRule
    from ahvn_tools.toolkit.structured_output import StructuredOutput

MAX_CLIENTS: Final = 10_000
"""A server remembers at most this many clients with nothing but a list of tools, and as many with more."""

MAX_SESSIONS: Final = 10_000
"""A toolkit holds at most this many sessions with an id that have nothing but a state, and as many with more."""

MAX_NEW_SESSIONS: Final = 1_000
"""How many of the sessions that were opened last are held whatever they have: the host may be about to use them."""

MAX_SESSION_AGE: Final = 3600.0
"""For how many seconds a toolkit holds a session that was not opened again."""

_MAX_EXAMINED: Final = (100, 100, 100, 2)
"""How many sessions of each kind that may have to go are looked at whenever one is opened."""

CANNOT_SWITCH: Final = (
    "Groups cannot be switched: the server cannot distinguish this client from others and stores nothing."
)

_NO_GROUP_OVERRIDES: Final[Mapping[int, bool]] = MappingProxyType({})
_NO_STRUCTURED_OUTPUTS: Final[Mapping[Entry, StructuredOutput | None]] = MappingProxyType({})
_session_id_lock = threading.Lock()


class GroupSwitches:
    """What a toolkit or a session has switched. Readers need no lock: a change replaces the mapping."""

    __slots__ = ("approval_mode", "group_overrides", "is_anonymous", "remembered_rules", "structured_outputs")

    @property
    def is_unchanged(self) -> bool:
        """Whether nothing has been switched."""
        return not (
            self.group_overrides or self.structured_outputs or self.approval_mode is not None or self.remembered_rules
        )

    def __init__(self, *, is_anonymous: bool = False) -> None:
        self.is_anonymous = is_anonymous
        """Whether they are of a client that the server cannot distinguish from others."""
        self.group_overrides: Mapping[int, bool] = _NO_GROUP_OVERRIDES
        """Whether a group is active, by the group's unique id."""
        self.structured_outputs: Mapping[Entry, StructuredOutput | None] = _NO_STRUCTURED_OUTPUTS
        """The tools that also take a model's fields. None: not here, although an outer session may say so."""
        self.approval_mode: Mode | None = None
        """The mode of the rules here; None: that of the outer session or toolkit."""
        self.remembered_rules: tuple[RememberedRule, ...] = ()
        """The calls that an approver has approved for always."""


class ClientState(GroupSwitches):
    """What a server remembers of one client: its switches, and which list of tools it has."""

    __slots__ = ("listed_revision", "prompts_revision")

    def __init__(self, *, is_anonymous: bool = False) -> None:
        super().__init__(is_anonymous=is_anonymous)
        self.listed_revision: Any = None
        """The revision of the tool list that the client last received or was notified of; None before its first."""
        self.prompts_revision: Any = None
        """The same of the list of prompts."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class _Held:
    """A session that is held, and since when."""

    item: Any
    find_content: Callable[[], SessionContent]
    since: float


class HeldSessions:
    """Sessions by their ids: new ones, and those with a state, with more, and with calls. Its user has a lock.

    In each of these levels the one that was opened last is at the end. The level of those with calls has no limit.
    """

    def __init__(self, *, max_new: int, max_held: int, max_age: float) -> None:
        self._limits = (max_new, max_held, max_held, 0)
        self._max_age = max_age
        self._levels = tuple(OrderedDict[str, _Held]() for _ in self._limits)

    def get(self, session_id: str) -> Any:
        """Return a session; None if it is not held."""
        return next((level[session_id].item for level in self._levels if session_id in level), None)

    def hold(self, session_id: str, item: Any, find_content: Callable[[], SessionContent]) -> list[Any]:
        """Hold a session that was opened now. Return those that are no longer held."""
        for level in self._levels:
            level.pop(session_id, None)
        now = time.monotonic()
        self._levels[0][session_id] = _Held(item=item, find_content=find_content, since=now)
        return [one for number in range(len(self._levels)) for one in self._push_out(number, now)]

    def find_content(self) -> SessionContent:
        """Return the most that one of the sessions has."""
        contents = (held.find_content() for level in self._levels for held in level.values())
        return max(contents, default=SessionContent.NOTHING)

    def _push_out(self, number: int, now: float) -> Iterator[Any]:
        """Yield the sessions that leave a level and have too little for the next one, or are too old for it."""
        level = self._levels[number]
        for _ in range(min(len(level), _MAX_EXAMINED[number])):
            session_id, held = next(iter(level.items()))
            is_old = now - held.since > self._max_age
            if len(level) <= self._limits[number] and not is_old:
                return
            del level[session_id]
            content = held.find_content()
            has_too_little = number != SessionContent.CALLS and content <= number
            if content == SessionContent.CALLS or not (has_too_little or is_old):
                self._levels[content][session_id] = held
            else:
                yield held


@dataclass(slots=True, eq=False, repr=False)
class _Client:
    """A client of a server. Its background calls refer to its state."""

    state: ClientState
    background_calls: BackgroundCalls | None = None

    def find_content(self) -> SessionContent:
        """Return what it has."""
        content = SessionContent.NOTHING if self.background_calls is None else self.background_calls.find_content()
        return max(content, SessionContent.STATE if self.state.is_unchanged else SessionContent.MORE)


class ClientStates:
    """The clients of one server by their session ids."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients = HeldSessions(max_new=0, max_held=MAX_CLIENTS, max_age=float("inf"))

    def get(self, session_id: str | None) -> ClientState:
        """Return the state of a client; a new one each time for a client without a session id."""
        if session_id is None:
            return ClientState(is_anonymous=True)
        with self._lock:
            client = self._clients.get(session_id) or _Client(ClientState())
            forgotten = self._clients.hold(session_id, client, client.find_content)
        del forgotten  # outside the lock: their background calls are cancelled
        state: ClientState = client.state
        return state

    def background_calls(
        self, session_id: str | None, on_leave: Callable[[Callable[[], None]], None]
    ) -> BackgroundCalls:
        """Return the background calls of a client that `get` has returned.

        When they are new, `on_leave` gets the function to call when the client leaves.
        """
        if session_id is None:
            return BackgroundCalls(outlives_request=False)
        with self._lock:
            client = self._clients.get(session_id)
            if client is None:  # forgotten just now
                return BackgroundCalls()
            if client.background_calls is not None:
                known: BackgroundCalls = client.background_calls
                return known
            calls = client.background_calls = BackgroundCalls()
        on_leave(functools.partial(self._drop_background_calls, session_id))
        return calls

    def _drop_background_calls(self, session_id: str) -> None:
        with self._lock:
            client = self._clients.get(session_id)
            dropped, known = (None, None) if client is None else (client.background_calls, client)
            if known is not None:
                known.background_calls = None
        if dropped is not None:
            dropped.close()  # a request that is active may refer to them


class SessionState:
    """The state and the switches of a toolkit or a session. Those of a request are its client's."""

    __slots__ = ("__weakref__", "_named_sessions", "_session_id", "background_calls", "state", "switches")

    def __init__(
        self, state: Mapping[str, Any], session_id: str | None = None, switches: GroupSwitches | None = None
    ) -> None:
        """Use this state; without `switches` begin with nothing switched."""
        self.state = state
        self.switches = GroupSwitches() if switches is None else switches
        self._session_id = session_id
        self._named_sessions: NamedSessions | None = None
        self.background_calls: weakref.ref[BackgroundCalls] | None = None
        """Those of a session with an id; its views hold them."""

    @property
    def named_sessions(self) -> NamedSessions:
        """The sessions with an id that were opened here."""
        if self._named_sessions is None:
            with _session_id_lock:
                if self._named_sessions is None:
                    self._named_sessions = NamedSessions()
        return self._named_sessions

    def inner_content(self) -> SessionContent:
        """Return what the sessions with an id have that were opened here."""
        return SessionContent.NOTHING if self._named_sessions is None else self._named_sessions.find_content()

    @property
    def session_id(self) -> str:
        """The session's id; without one, an id is generated at the first access."""
        with _session_id_lock:  # two threads that ask at once get the same id
            if self._session_id is None:
                self._session_id = uuid.uuid4().hex
            return self._session_id

    def mutable_state(self) -> MutableMapping[str, Any]:
        """Return the state, to change it. Raises ToolkitError for one that can only be read."""
        if isinstance(self.state, MutableMapping):
            return self.state
        raise ToolkitError(
            f"The state is a {type(self.state).__name__}, which cannot be changed: pass dict(state) as the state."
        )

    def continue_session(self, session_id: str | None) -> None:
        """Take over the id of an earlier session, if this one has none yet."""
        with _session_id_lock:
            if self._session_id is None:
                self._session_id = session_id


class NamedSessions:
    """The sessions of a toolkit by their ids: each that is in use, and for a while those that were opened last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._in_use: weakref.WeakValueDictionary[str, SessionState] = weakref.WeakValueDictionary()
        self._held = HeldSessions(max_new=MAX_NEW_SESSIONS, max_held=MAX_SESSIONS, max_age=MAX_SESSION_AGE)

    def open(self, session_id: str) -> tuple[SessionState, BackgroundCalls]:
        """Return the session of this id and its background calls; a new one if none is in use or held."""
        with self._lock:
            session = self._in_use.get(session_id)
            if session is None:
                session = self._in_use[session_id] = SessionState({}, session_id)
            calls = None if session.background_calls is None else session.background_calls()
            if calls is None:
                calls = BackgroundCalls()
                session.background_calls = weakref.ref(calls)
            opened = session, calls
            dropped = self._held.hold(session_id, opened, functools.partial(_find_content, *opened))
        del dropped  # outside the lock: the end of a session cancels its background calls
        return opened

    def find_content(self) -> SessionContent:
        """Return the most that one of the sessions has."""
        with self._lock:
            return self._held.find_content()


def _find_content(session: SessionState, calls: BackgroundCalls) -> SessionContent:
    """Return what a session has, with the sessions that were opened in it."""
    is_empty = type(session.state) is dict and not session.state  # another mapping is of the host
    own = SessionContent.NOTHING if is_empty else SessionContent.STATE
    if not session.switches.is_unchanged:
        own = SessionContent.MORE
    return max(own, calls.find_content(), session.inner_content())


class ActiveCalls:
    """The scopes of running calls. Several may have one id: providers number the calls of each response again.

    There is no lock: each change is one atomic step.
    """

    def __init__(self) -> None:
        self._calls: dict[CallScope, tuple[str, tuple[SessionState, ...]]] = {}

    @contextlib.contextmanager
    def track(self, id: str, owners: tuple[SessionState, ...], scope: CallScope) -> Generator[None]:  # noqa: A002  # the id of the call
        """Let `cancel` reach the call inside this block. `owners`: its session, those around that, and the toolkit."""
        self._calls[scope] = (id, owners)
        try:
            yield
        finally:
            del self._calls[scope]

    def cancel(self, id: str, owner: SessionState) -> bool:  # noqa: A002  # the id of the calls
        """Cancel the calls of an owner with this id. Return whether there are any."""
        calls = self._calls.copy().items()
        scopes = [scope for scope, (call_id, owners) in calls if call_id == id and owner in owners]
        for scope in scopes:
            scope.cancel()
        return bool(scopes)
