"""Inbox: a file in which calls wait for a person, who decides in another process."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from enum import Enum
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from ahvn_tools.errors import InvalidParametersError, ToolCallError, ToolkitError
from ahvn_tools.execution.threads import call_in_thread
from ahvn_tools.json_types import JsonObject
from ahvn_tools.middleware.pending import ApprovalRequest, SignedRequest
from ahvn_tools.regular_file import open_regular
from ahvn_tools.results import ToolResult
from ahvn_tools.secret_key import SecretKey
from ahvn_tools.settings import is_duration

if TYPE_CHECKING:  # few toolkits need it
    import sqlite3

    from ahvn_tools.execution.call import Call

POLL_SECONDS: Final = 0.2
"""How long a decision may wait for the call to go on."""

BEAT_SECONDS: Final = 2.0
"""How often a call says that it still waits."""

GONE_SECONDS: Final = 10.0
"""After how long without that its process counts as ended."""

LOCK_SECONDS: Final = 10.0
"""How long a process waits for another one that writes to the file."""

RETRY_SECONDS: Final = 1.0
"""How long a call waits for the file before it tries again; it does so until its request ends."""

WITHDRAW_SECONDS: Final = 1.0
"""How long a cancelled call waits until its request is cancelled in the file; after that, a thread goes on."""

MAX_KEPT: Final = 200
"""How many requests are kept, decided ones too; those that wait are kept in any case."""

PAGE_ROWS: Final = 50
"""How many requests are read from the file at once."""

MAX_TEXT_CHARS: Final = 1_000_000
"""How large a request, and a decision, may be as JSON."""

MAX_REASON_CHARS: Final = 2_000
"""How long a reason may be, which the model reads."""

MAX_PREVIEW_CHARS: Final = 200
"""How many characters of what is asked a list shows."""

_REQUEST, _DECISION, _STATE = "request in an inbox", "decision in an inbox", "state of a request in an inbox"
_LARGE: Final = ("arguments", "action", "details", "schema")
"""The fields that a list does not read; the signed text of a request has a digest of them."""

_COLUMNS: Final = (
    f"id, substr(text, 1, {MAX_TEXT_CHARS}), signature, state, seen_until, substr(reason, 1, {MAX_TEXT_CHARS}), "
    f"substr(problem, 1, {MAX_TEXT_CHARS}), ended_at, state_signature"
)
_FULL_COLUMNS: Final = f"{_COLUMNS}, substr(large, 1, {MAX_TEXT_CHARS})"
_WAITS: Final = "state = 'waiting' AND seen_until > ?"
_SCHEMA: Final = (
    "CREATE TABLE inbox (id TEXT PRIMARY KEY, tool TEXT NOT NULL, text TEXT NOT NULL, large TEXT NOT NULL, "
    "signature TEXT NOT NULL, "
    "created_at REAL NOT NULL, seen_until REAL NOT NULL, state TEXT NOT NULL, decision TEXT, decision_signature TEXT, "
    "reason TEXT NOT NULL DEFAULT '', problem TEXT NOT NULL DEFAULT '{}', ended_at REAL, "
    "state_signature TEXT NOT NULL)"
)

_NEEDS: Final = {"approval": "an approval", "result": "a result"}

_OTHER: Final = "The request has changed since it was shown. Nothing was decided: read it again."
_BUSY: Final = {5, 6, 10, 13, 15}  # SQLITE_BUSY, LOCKED, IOERR, FULL, PROTOCOL: it may pass
State = Literal[
    "waiting", "decided", "approved", "denied", "answered", "cancelled", "expired", "process ended", "unreadable"
]


class ApprovalAnswer(Enum):
    """An answer of an approver that is more than yes or no."""

    ALWAYS = "always"
    """Approves the call and, if the request has a `suggested_rule`, the same call from now on."""


@dataclass(frozen=True, kw_only=True)
class InboxItem:
    """One call that waits, or has waited, as a person sees it: with `***` for secrets, and no bound value."""

    id: str
    kind: Literal["approval", "result"] = "approval"
    """What it waits for: `approve` and `deny`, or `answer` and `deny`."""
    call_id: str = ""
    """The id of the call, as in the events of a conversation."""
    toolkit: str = ""
    tool: str = ""
    arguments: JsonObject
    session_id: str | None = None
    """The session of the call. In a service for several users, compare it before you let a user decide."""
    created_at: float = 0.0
    """Seconds since 1970, as the other times."""
    expires_at: float | None = None
    """When the call ends without a decision; None: it waits for any time."""
    process_id: int = 0
    action: str | None = None
    """What the tool asks in its own words, or the question to the user."""
    details: JsonObject | None = None
    asked_by: str | None = None
    """Why the rules of the toolkit ask."""
    rule: str | None = None
    """What `always` remembers; None: nothing."""
    secrets: tuple[str, ...] = ()
    """The arguments that contain a `***`."""
    schema: JsonObject
    """The JSON Schema of the arguments, or of the result."""
    preview: str = ""
    """The beginning of `action`, or of the arguments as JSON."""
    digest: str = ""
    """Identifies what is asked: `approve`, `deny` and `answer` with it refuse a request that asks something else."""
    state: State = "waiting"
    """`decided`: the call reads the decision within a second. `unreadable`: it was made with another key, or changed.

    `cancelled`: the call has ended without a decision. `process ended`: its process has not answered for 10 seconds.
    """
    reason: str = ""
    """Why it was denied."""
    problem: JsonObject
    """Why the last decision was refused: a `text`, and `problems` with a `pointer` and a `text`; or nothing."""
    ended_at: float | None = None


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A decision on one item."""

    is_accepted: bool
    """Whether the call runs, or gets a result."""
    reason: str = ""
    arguments: JsonObject | None = None
    is_always: bool = False
    value: Any = None
    is_late: bool = False
    """Whether nobody has decided in time."""


_LATE: Final = Decision(is_accepted=False, reason="nobody has decided in time.", is_late=True)


class _BusyError(ToolkitError):
    """The file cannot be used now, but perhaps later."""


class Inbox:
    """An approver that lets calls wait in a file, for a person in any process of this user on this machine.

    `Toolkit(…, approver=Inbox(…))` writes each request to the file and goes on when it is decided there. Calls of
    external tools, and questions to the user, get their results there, too. Whoever has the file and the key decides,
    with `approve`, `deny` and `answer`, or in the pages of `ahvn-tools ui --inbox FILE`.

    >>> import pathlib, tempfile
    >>> inbox = Inbox(pathlib.Path(tempfile.mkdtemp()) / "inbox.db", secret_key="the key of all these processes")
    >>> inbox.items()
    []
    """

    def __init__(
        self, path: str | PathLike[str], *, secret_key: str | bytes, timeout: float | None = 24 * 3600.0
    ) -> None:
        """Create the file unless it exists; only its owner can use it. It must be on a local disk, and no link.

        `secret_key`, the same in all processes, signs requests, decisions and states, so that what only writes the
        file decides nothing. `timeout` is how many seconds a call waits; then it is rejected. Raises ToolkitError.
        """
        if secret_key is None:  # callers may pass anything
            raise ToolkitError("An Inbox needs a key that its processes share: pass secret_key=….")
        if timeout is not None and not (is_duration(timeout) and timeout > 0):
            raise ToolkitError(f"`timeout` is a number of seconds greater than 0, or None, not {timeout!r}.")
        self._key, self.timeout = SecretKey.create(secret_key), timeout
        self.path = Path(path).parent.resolve() / Path(path).name
        with self._errors():
            descriptor = open_regular(self.path, os.O_CREAT | os.O_RDWR, 0o600)
            with os.fdopen(descriptor):
                status = os.fstat(descriptor)
            if hasattr(os, "geteuid") and (status.st_uid != os.geteuid() or status.st_mode & 0o077):
                raise PermissionError("it must belong to the user of this process, and nobody else may use it")
            with self._transaction() as connection:
                _create_table(connection)

    def __repr__(self) -> str:
        return f"Inbox({str(self.path)!r})"

    async def __call__(self, request: ApprovalRequest, call: Call | None = None) -> Any:
        """Return the decision on a request when there is one; `call`, which it is for, says more about it."""
        fields = self._fields(request, call, kind="approval", details=request.details, rule=request.suggested_rule)
        if call is not None:
            fields |= {"schema": call.definition.input_schema or {}, "asked_by": call.scope.asked_by}
        fields["action"] = request.action
        problem: JsonObject = {}
        while True:
            decision = await self._ask(fields, problem, call)
            if not decision.is_accepted:
                return decision.reason or False
            if not decision.arguments:
                return ApprovalAnswer.ALWAYS if decision.is_always else True
            try:
                if call is not None:
                    call.plan.check_arguments((), request.merge_edits(decision.arguments, call.arguments))
            except ToolCallError as error:  # invalid, or denied by a rule
                found = error.problems if isinstance(error, InvalidParametersError) else ()
                problems = [{"pointer": one.pointer, "text": one.text} for one in found]
                problem = {"text": error.message, "problems": problems}
            else:
                return decision.arguments

    def _fields(self, request: SignedRequest, call: Call | None, **more: Any) -> JsonObject:
        ends = [request.expires_at, None if self.timeout is None else time.time() + self.timeout]
        kit = None if call is None or call.open_toolkit is None else call.open_toolkit()
        return {
            "id": request.id,
            "call_id": request.call_id,
            "toolkit": getattr(kit, "name", ""),
            "tool": request.tool,
            "arguments": request.arguments,
            "session_id": request.session_id,
            "created_at": time.time(),
            "expires_at": min((end for end in ends if end is not None), default=None),
            "process_id": os.getpid(),
            "secrets": [*request.secrets],
            "schema": {},
            **more,
        }

    async def ask_for_result(
        self, request: SignedRequest, call: Call, message: str | None, schema: JsonObject, problem: str
    ) -> Decision:
        """Wait for the result of a call; `problem` says why the last one was refused."""
        fields = self._fields(request, call, kind="result", action=message, schema=schema)
        return await self._ask(fields, {"text": problem, "problems": []} if problem else {}, call)

    async def _ask(self, fields: JsonObject, problem: JsonObject, call: Call | None) -> Decision:
        """Write a request, and return the decision on it. When this is cancelled, the request is."""
        text, large = _to_texts(fields)
        is_withdrawn, chunk = threading.Event(), None
        try:
            late = await self._in_time(fields, lambda: self._post(fields, (text, large), problem, is_withdrawn))
            if late is not None:
                return late
            if call is not None:
                chunk = asyncio.ensure_future(_emit_waiting(call, fields))
            decision = await self._wait(fields, text)
            if chunk is not None:
                await chunk  # its reader may be slow, and decide before it reads on
            return decision
        except BaseException:
            is_withdrawn.set()  # for the thread that writes the request
            with contextlib.suppress(ToolkitError, TimeoutError):
                await asyncio.wait_for(call_in_thread(self._withdraw, fields["id"], text), WITHDRAW_SECONDS)
            raise
        finally:
            if chunk is not None:
                chunk.cancel()

    async def _wait(self, fields: JsonObject, text: str) -> Decision:
        beat_at = time.monotonic() + BEAT_SECONDS
        while True:
            beats = time.monotonic() >= beat_at
            decision = await self._in_time(fields, lambda: self._take(fields, text, beats=beats))  # noqa: B023  # it is awaited here
            if decision is not None:
                return decision
            beat_at = time.monotonic() + BEAT_SECONDS if beats else beat_at
            await asyncio.sleep(POLL_SECONDS)

    async def _in_time(self, fields: JsonObject, function: Callable[[], Decision | None]) -> Decision | None:
        """Run a function that uses the file. While the file is locked, try again until the request ends."""
        while True:
            try:
                return await call_in_thread(function)
            except _BusyError:
                if _is_late(fields):
                    return _LATE
            await asyncio.sleep(POLL_SECONDS)

    def items(
        self, *, session_id: str | None = None, session_prefix: str | None = None, is_short: bool = False
    ) -> list[InboxItem]:
        """Return the latest 200 requests that wait, then the latest 200 others. `waiting` has all that wait.

        With `session_id`, they are those of this session alone; with `session_prefix`, those of all sessions whose
        id begins with it, such as "ann/". Short ones have a `preview` in place of what may be large: `arguments`,
        `action`, `details` and `schema`.
        """
        columns, now = _COLUMNS if is_short else _FULL_COLUMNS, time.time()
        query, items = f"SELECT {columns} FROM inbox WHERE {{}} ORDER BY created_at DESC", list[InboxItem]()  # noqa: S608  # constants
        with self._errors(), contextlib.closing(self._connect()) as connection:
            connection.execute("BEGIN")  # both parts are of one moment
            for condition in (_WAITS, f"NOT ({_WAITS})"):
                found = map(self._read, connection.execute(query.format(condition), (now,)))
                items += islice((item for item in found if _is_of(item, session_id, session_prefix)), MAX_KEPT)
        return items

    def waiting(
        self, *, session_id: str | None = None, session_prefix: str | None = None, is_short: bool = False
    ) -> Iterator[InboxItem]:
        """Yield all requests that wait, the oldest first, however many there are; the options are those of `items`.

        They are read as they are needed, and the file is not locked between them.
        """
        columns, last = _COLUMNS if is_short else _FULL_COLUMNS, 0
        query = f"SELECT rowid, {columns} FROM inbox WHERE rowid > ? AND {_WAITS} ORDER BY rowid LIMIT ?"  # noqa: S608  # as above
        while True:
            with self._errors(), contextlib.closing(self._connect()) as connection:
                rows = connection.execute(query, (last, time.time(), PAGE_ROWS)).fetchall()
            if not rows:
                return
            last = rows[-1][0]
            for _, *row in rows:
                item = self._read(tuple(row))
                if item.state == "waiting" and _is_of(item, session_id, session_prefix):
                    yield item

    def item(self, id: str) -> InboxItem:  # noqa: A002  # the word for it
        """Return one request. Raises ToolkitError for an unknown one."""
        with self._errors(), contextlib.closing(self._connect()) as connection:
            return self._read(_select(connection, id))

    def previous(self, item: InboxItem) -> InboxItem | None:
        """Return the last request of the same tool and kind that a person has decided before; None: there is none."""
        query = (
            f"SELECT {_COLUMNS} FROM inbox WHERE tool = ? AND created_at < ? AND "  # noqa: S608  # a constant
            "state IN ('approved', 'denied', 'answered') ORDER BY created_at DESC LIMIT ?"
        )
        same = (item.tool, item.toolkit, item.kind)
        with self._errors(), contextlib.closing(self._connect()) as connection:
            rows = connection.execute(query, (item.tool, item.created_at, MAX_KEPT)).fetchall()
            found = [one for one in (self._read(row) for row in rows) if one.state != "unreadable"]
            last = next((one for one in found if (one.tool, one.toolkit, one.kind) == same), None)
            return None if last is None else self._read(_select(connection, last.id))

    def approve(
        self,
        id: str,  # noqa: A002  # as above
        arguments: Mapping[str, Any] | None = None,
        *,
        always: bool = False,
        digest: str | None = None,
    ) -> InboxItem:
        """Approve a call: with these edits of its arguments, or also from now on. Raises as `answer` does."""
        item = self._find(id, digest)
        if always and (arguments or item.rule is None):
            raise ToolkitError("This call cannot be approved for always: it has secret, edited or very long arguments.")
        if arguments and item.action is not None:
            raise ToolkitError("What a tool asks in its own words is approved as it is, or denied.")
        edits = None if arguments is None else dict(arguments)
        return self._decide(item, "approval", Decision(is_accepted=True, arguments=edits, is_always=always))

    def deny(self, id: str, reason: str = "", *, digest: str | None = None) -> InboxItem:  # noqa: A002  # as above
        """Deny a call, or decline to answer; the model reads the reason. Raises as `answer` does."""
        if len(reason) > MAX_REASON_CHARS:
            raise ToolkitError(f"A reason has at most {MAX_REASON_CHARS:,} characters. Nothing has changed.")
        item = self._find(id, digest)
        return self._decide(item, item.kind, Decision(is_accepted=False, reason=reason))

    def answer(self, id: str, value: Any, *, digest: str | None = None) -> InboxItem:  # noqa: A002  # as above
        """Pass the result of a call, as JSON. A result that the tool refuses is in `problem` soon; the call waits on.

        Raises ToolkitError for a request that does not wait: each is decided once. With the `digest` of an item, also
        for a request that asks something else than the item that was shown.
        """
        return self._decide(self._find(id, digest), "result", Decision(is_accepted=True, value=value))

    def _find(self, item_id: str, digest: str | None) -> InboxItem:
        item = self.item(item_id)
        if item.state != "unreadable" and digest not in {None, item.digest}:
            raise ToolkitError(_OTHER)
        return item

    def _decide(self, item: InboxItem, kind: str, decision: Decision) -> InboxItem:
        if kind != item.kind:
            fix = "approve or deny it" if item.kind == "approval" else "answer or deny it"
            raise ToolkitError(f"The call of {item.tool!r} waits for {_NEEDS[item.kind]}: {fix}.")
        decided = _to_text(asdict(decision))
        with self._errors(), self._transaction() as connection:
            row = _select(connection, item.id)
            found, text = self._read(row), row[1]
            if found.state != "waiting":
                raise ToolkitError(_explain(found))
            if found.digest != item.digest:
                raise ToolkitError(_OTHER)
            connection.execute(
                "UPDATE inbox SET decision = ?, decision_signature = ? WHERE id = ?",
                (decided, self._key.digest(_DECISION, [text, decided]), item.id),
            )
            self._set_state(connection, item.id, text, "decided")
        return replace(found, state="decided")

    def _post(
        self, fields: JsonObject, texts: tuple[str, str], problem: JsonObject, is_withdrawn: threading.Event
    ) -> None:
        """Write a request, as `_to_texts` has it."""
        with self._errors(), self._transaction(RETRY_SECONDS) as connection:
            now, (text, large) = time.time(), texts
            connection.execute(
                "DELETE FROM inbox WHERE seen_until < ? AND id NOT IN "
                "(SELECT id FROM inbox ORDER BY created_at DESC LIMIT ?)",
                (now, MAX_KEPT - 1),
            )
            connection.execute(
                "INSERT INTO inbox (id, tool, text, large, signature, created_at, seen_until, state, state_signature) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, '', '') ON CONFLICT (id) DO UPDATE SET text = excluded.text, "
                "large = excluded.large, signature = excluded.signature, seen_until = excluded.seen_until",
                (
                    fields["id"], fields["tool"], text, large, self._key.digest(_REQUEST, text), fields["created_at"],
                    now + GONE_SECONDS,
                ),
            )  # fmt: skip
            if is_withdrawn.is_set():
                self._end(connection, fields["id"], text, "cancelled", "")
            else:
                _remove_decision(connection, fields["id"])
                self._set_state(connection, fields["id"], text, "waiting", problem=_to_text(problem))

    def _withdraw(self, item_id: str, text: str) -> None:
        """End a request whose call has read no decision, also if a thread has read one for it."""
        with self._errors(), self._transaction() as connection:
            self._end(connection, item_id, text, "cancelled", "")

    def _take(self, fields: JsonObject, text: str, *, beats: bool) -> Decision | None:
        """Return the decision that is there, and remove it from the file; None: there is none."""
        query, is_late = "SELECT state, decision, decision_signature FROM inbox WHERE id = ?", _is_late(fields)
        with self._errors():
            if not (beats or is_late):
                with contextlib.closing(self._connect(RETRY_SECONDS)) as connection:  # most often nothing is written
                    if connection.execute(query, (fields["id"],)).fetchone() == ("waiting", None, None):
                        return None
            return self._take_now(query, fields, text, beats=beats, is_late=is_late)

    def _take_now(self, query: str, fields: JsonObject, text: str, *, beats: bool, is_late: bool) -> Decision | None:
        with self._transaction(RETRY_SECONDS) as connection:
            row = connection.execute(query, (fields["id"],)).fetchone()
            if row is None or row[0] not in {"waiting", "decided"}:
                raise ToolkitError("The request is no longer in its inbox.")
            if row[0] == "decided":
                if not self._is_signed(row[2], _DECISION, [text, row[1]]):
                    raise ToolkitError(f"A decision in {str(self.path)!r} is not signed with the key of this process.")
                decision = Decision(**json.loads(row[1]))
            elif is_late:
                decision = _LATE
            else:
                if beats:
                    seen = (time.time() + GONE_SECONDS, fields["id"])
                    connection.execute("UPDATE inbox SET seen_until = ? WHERE id = ?", seen)
                return None
            accepted = "approved" if fields["kind"] == "approval" else "answered"
            state = "expired" if decision.is_late else accepted if decision.is_accepted else "denied"
            self._end(connection, fields["id"], text, state, decision.reason)
            return decision

    def _end(self, connection: sqlite3.Connection, item_id: str, text: str, state: str, reason: str) -> None:
        """End a request. What a person has written stays in the file no longer than needed, but for the reason."""
        _remove_decision(connection, item_id)
        self._set_state(connection, item_id, text, state, reason=reason, ended_at=time.time())

    def _set_state(
        self,
        connection: sqlite3.Connection,
        item_id: str,
        text: str,
        state: str,
        *,
        reason: str = "",
        problem: str = "{}",
        ended_at: float | None = None,
    ) -> None:
        signature = self._key.digest(_STATE, [text, state, reason, problem, ended_at])
        connection.execute(
            "UPDATE inbox SET state = ?, reason = ?, problem = ?, ended_at = ?, state_signature = ? WHERE id = ?",
            (state, reason, problem, ended_at, signature, item_id),
        )

    def _is_signed(self, signature: Any, purpose: str, data: Any) -> bool:
        """Return whether what the file has is signed with the key of this process, and so has the right types."""
        try:
            return self._key.is_digest(signature, purpose, data)
        except (ValueError, TypeError, AttributeError):  # something else has written it
            return False

    def _read(self, row: tuple[Any, ...]) -> InboxItem:
        item_id, text, signature, state, seen_until, reason, problem, ended_at, state_signature, *large = row
        unreadable = InboxItem(id=str(item_id), arguments={}, schema={}, problem={}, state="unreadable")
        signed_state = [text, state, reason, problem, ended_at]
        if not self._is_signed(signature, _REQUEST, text) or not self._is_signed(state_signature, _STATE, signed_state):
            return unreadable
        fields = json.loads(text)
        if fields["id"] != item_id or not all(_large_digest(part) == fields["large"] for part in large):
            return unreadable
        fields |= {"arguments": {}, "schema": {}, **(json.loads(large[0]) if large else {})}
        fields["secrets"], fields["digest"] = tuple(fields["secrets"]), _digest(fields)
        del fields["large"]
        item = InboxItem(**fields, state=state, reason=reason, problem=json.loads(problem), ended_at=ended_at)
        if state in {"waiting", "decided"}:
            if _is_late(fields):
                return replace(item, state="expired")
            if not (isinstance(seen_until, float) and time.time() < seen_until):
                return replace(item, state="process ended")
        return item

    def _connect(self, seconds: float | None = None) -> sqlite3.Connection:
        import sqlite3

        database = f"{self.path.as_uri()}?mode=rw"  # SQLite never makes a file where a link has just been put
        timeout = LOCK_SECONDS if seconds is None else seconds
        connection = sqlite3.connect(database, timeout=timeout, isolation_level=None, uri=True)
        connection.text_factory = _decode
        connection.execute("PRAGMA synchronous = OFF")  # a power failure ends the calls that wait, too
        connection.execute("PRAGMA secure_delete = ON")  # what a person has written is not left in free pages
        return connection

    @contextlib.contextmanager
    def _transaction(self, seconds: float | None = None) -> Generator[sqlite3.Connection]:
        with contextlib.closing(self._connect(seconds)) as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection

    @contextlib.contextmanager
    def _errors(self) -> Generator[None]:
        import sqlite3

        try:
            yield
        except (sqlite3.Error, OSError) as error:
            is_busy = isinstance(error, sqlite3.Error) and (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _BUSY
            raise (_BusyError if is_busy else ToolkitError)(
                f"The inbox {str(self.path)!r} cannot be used ({error}). Pass the path of a SQLite file on a local "
                "disk that belongs to the user of this process alone."
            ) from error


async def _emit_waiting(call: Call, fields: JsonObject) -> None:
    """Say to the reader of a stream that its call waits."""
    text = f"Waits for {_NEEDS[fields['kind']]}."
    if call.report is not None:
        call.report(0, None, text)
    elif call.emit is not None:
        meta = {"progress": {"progress": 0, "total": None}, "waiting": fields["id"]}
        await call.emit(ToolResult(text, meta=meta, is_last=False, id=call.id))


def _create_table(connection: sqlite3.Connection) -> None:
    """Create the table unless it exists. Raises DatabaseError for a file of another program."""
    import sqlite3

    known = [sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")]
    if known not in ([], [_SCHEMA]):  # such as a trigger, which could decide
        raise sqlite3.DatabaseError("it is that of another program")
    if not known:
        connection.execute(_SCHEMA)


def _is_of(item: InboxItem, session_id: str | None, session_prefix: str | None) -> bool:
    """Return whether a request is of a session, and of one whose id begins so; one without a session is of none."""
    if session_id is not None and item.session_id != session_id:
        return False
    return session_prefix is None or (item.session_id is not None and item.session_id.startswith(session_prefix))


def _select(connection: sqlite3.Connection, item_id: str) -> tuple[Any, ...]:
    query = f"SELECT {_FULL_COLUMNS} FROM inbox WHERE id = ?"  # noqa: S608  # a constant
    row: tuple[Any, ...] | None = connection.execute(query, (item_id,)).fetchone()
    if row is None:
        raise ToolkitError("There is no such request in the inbox.")
    return row


def _remove_decision(connection: sqlite3.Connection, item_id: str) -> None:
    connection.execute("UPDATE inbox SET decision = NULL, decision_signature = NULL WHERE id = ?", (item_id,))


def _decode(text: bytes) -> str:
    """Return a text of the file; one that is no UTF-8 has no valid signature then."""
    return text.decode("utf-8", "replace")


def _is_late(fields: JsonObject) -> bool:
    return fields["expires_at"] is not None and time.time() >= fields["expires_at"]


def _explain(item: InboxItem) -> str:
    """Return why a request cannot be decided."""
    reasons = {
        "decided": "was decided just now",
        "cancelled": "was cancelled by its caller",
        "expired": "has expired",
        "process ended": "is not waited for: its process has ended, or does not answer",
        "unreadable": "was made with another secret_key, or changed",
    }
    what = reasons.get(item.state, f"was {item.state} already")
    if item.ended_at is not None:
        what = f"{what}, {max(time.time() - item.ended_at, 0):.0f} seconds ago"
    return f"The request {what}. Nothing has changed."


def _to_texts(fields: JsonObject) -> tuple[str, str]:
    """Return a request as JSON texts: what is signed, with a digest of the other one; and what may be large."""
    large = _to_text({name: fields[name] for name in _LARGE if name in fields})
    shown = fields.get("action") or json.dumps(fields["arguments"], ensure_ascii=False)
    preview = shown if len(shown) <= MAX_PREVIEW_CHARS else f"{shown[: MAX_PREVIEW_CHARS - 1]}…"
    short = {name: value for name, value in fields.items() if name not in _LARGE}
    return _to_text({**short, "preview": preview, "large": _large_digest(large)}), large


def _digest(fields: JsonObject) -> str:
    """Return a digest of what a request asks: it stays the same when a call asks again after a refused result."""
    asked = {name: value for name, value in fields.items() if name not in {*_LARGE, "created_at", "expires_at"}}
    return _large_digest(json.dumps(asked, sort_keys=True))


def _large_digest(text: Any) -> str:
    return hashlib.sha256(str(text).encode()).hexdigest()


def _to_text(data: Any) -> str:
    """Return JSON text. Raises ToolkitError for what is too large, or no JSON."""
    try:
        text = json.dumps(data)
    except (TypeError, ValueError, RecursionError):
        raise ToolkitError("What is decided is JSON data.") from None
    if len(text) > MAX_TEXT_CHARS:
        raise ToolkitError(f"Requests and decisions have at most {MAX_TEXT_CHARS:,} characters.")
    return text
