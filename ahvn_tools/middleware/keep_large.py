"""Keep large: a model reads the beginning of a large result and a handle, with which it reads and searches the rest."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from pydantic import Field
from pydantic_core import from_json

from ahvn_tools.context import ToolContext
from ahvn_tools.errors import InvalidResultError, ToolError, ToolkitError, ToolSpecError, suggests_options
from ahvn_tools.execution.call import Call, Middleware, Next
from ahvn_tools.execution.pipeline import MAX_CHARS_ON_LOOP
from ahvn_tools.execution.threads import call_in_thread
from ahvn_tools.json_types import exceeds_size
from ahvn_tools.middleware.kept_json import KeptJson, outline, to_indexed_text
from ahvn_tools.middleware.kept_results import FolderStore, Kept, KeptText, MemoryStore, Owner, Store
from ahvn_tools.middleware.kept_text import page, page_of_lines, search_text
from ahvn_tools.middleware.truncate import TruncatedBlocks, block_text
from ahvn_tools.redaction.texts import find_cut_texts, list_texts
from ahvn_tools.results import ToolResult, text_block, to_text, whole_value

DEFAULT_MAX_BYTES: Final = 256 * 1024 * 1024
DEFAULT_MAX_AGE: Final = 3600.0

_MIN_CHARS: Final = 1_000
_LABEL_CHARS: Final = 200
"""For the line that says what a part of a result is."""

_MAX_WANTED: Final = 1_000
_MAX_NUMBER: Final = 10**12
_UNKNOWN: Final = "There is no result with this handle, or it is no longer kept. Call the tool that returned it again."

_JSON: Final = re.compile(r"\s*[{\[]")

Content = str | dict[str, Any] | list[Any]

Handle = Annotated[str, Field(description="The handle of the result.", max_length=100)]
Start = Annotated[int, Field(ge=0, le=_MAX_NUMBER)]


@suggests_options
def keep_large(
    max_chars: int = 20_000,
    *,
    folder: str | os.PathLike[str] | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
    max_age: float = DEFAULT_MAX_AGE,
) -> Middleware:
    """Return middleware that keeps results of which a model would read more than `max_chars` characters.

    The model reads the beginning of the text, or an outline of JSON data, with the size and a handle. A toolkit that
    uses the middleware has the tools `read_result` and `search_result`, which read the rest in parts of at most
    `max_chars` characters. Only `content`, which formats and MCP send to models, is replaced: `value`, `text` and
    `structured_content` stay whole for the host and for programs, and `meta["kept"]` has the handle and the number of
    characters. Images and other blocks without text stay. Errors and the chunks of a stream are not changed. Over MCP,
    `structured_content` of a kept result is only sent for a tool with an output schema, for which MCP requires it.

    Results are kept in memory or, with `folder`, as files, for the session of the call and until it ends: at most
    `max_bytes` in all, each for `max_age` seconds, the oldest dropped first. In a folder, a session that is opened with
    a `session_id` finds its results again in another process.

    Raises ToolSpecError for a `max_chars` below 1,000, for a `max_bytes` and a `max_age` that are not positive, and for
    a folder that is a link or that other users can change.
    """
    if max_chars < _MIN_CHARS or max_bytes < 1 or not max_age > 0:
        raise ToolSpecError(
            f"max_chars must be at least {_MIN_CHARS}, max_bytes and max_age positive, "
            f"not {max_chars!r}, {max_bytes!r} and {max_age!r}."
        )
    if folder is None:
        return _KeepLarge(max_chars, MemoryStore(max_bytes, max_age))
    return _KeepLarge(max_chars, FolderStore(folder, max_bytes, max_age))


class _KeepLarge:
    """The middleware that `keep_large` makes, with its tools."""

    def __init__(self, max_chars: int, store: Store) -> None:
        self._max_chars, self._store = max_chars, store
        self._page_chars = max_chars - _LABEL_CHARS
        self.tools: tuple[Callable[..., Any], ...] = (self.read_result, self.search_result)
        """The functions that a toolkit adds together with the middleware."""
        self.tool_options = {"annotations": {"readOnlyHint": True}}
        self.shares_tools = True
        """Whether the tools of another one in the same toolkit, such as that of an added toolkit, stand for these."""

    async def __call__(self, call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        """Run a call, and keep its result if it is large."""
        result = await next(call)
        if result.error is not None or not self._may_be_large(result):
            return result
        is_in_memory = isinstance(self._store, MemoryStore)
        if is_in_memory and not exceeds_size([whole_value(result), result.blocks], MAX_CHARS_ON_LOOP):
            return self._keep(call, result)
        return await call_in_thread(self._keep, call, result)

    def _may_be_large(self, result: ToolResult) -> bool:
        whole = whole_value(result)
        if result.blocks is None and isinstance(whole, str):
            return len(whole) > self._max_chars
        texts = None if result.blocks is None else [block_text(block) for block in result.blocks]
        return exceeds_size([whole if texts is None else result.structured_content, texts], self._max_chars // 4)

    def _keep(self, call: Call, result: ToolResult) -> ToolResult:
        try:
            content, length = _content(result)
        except InvalidResultError:
            return result  # no model can read it
        if length <= self._max_chars:
            return result
        handle, names = None, list[str]()
        if (found := self._find_reader(call)) is not None:
            store, owner, names = found
            text, index = (content, None) if isinstance(content, str) else to_indexed_text(content)
            kept = KeptText(text, index, list_texts(call.hidden_values()))
            handle = store.keep(owner, kept, sys.getsizeof(kept.text))
            if isinstance(store, MemoryStore) and owner.ids != ():
                owner.anchor.has_kept_results = True  # the toolkit forgets other sessions first
        note = "not kept." if handle is None else _how_to_read(handle, names, content)
        head = self._head(content, length, note)
        others = [block for block in result.blocks or () if block_text(block) is None]
        meta = {"chars": length} if handle is None else {"handle": handle, "chars": length}
        blocks = TruncatedBlocks([text_block(head), *others], result.blocks)
        return replace(result, blocks=blocks, meta={**result.meta, "kept": meta})

    def _find_reader(self, call: Call) -> tuple[Store, Owner, list[str]] | None:
        """Return where to keep a result, the session of its call, and the names of the tools that read it there.

        They are those of another `keep_large` in a toolkit that has these instead; None if there are none.
        """
        toolkit = None if call.open_toolkit is None else call.open_toolkit()
        if toolkit is None or (owner := _owner(toolkit)) is None:
            return None
        view = toolkit._view  # noqa: SLF001  # of this package
        owners = [getattr(entry.spec.function, "__self__", None) for entry in list(view.store.entries.values())]
        for keeper in (self, *(keeper for keeper in owners if isinstance(keeper, _KeepLarge))):
            names = [view.visible_name(function) for function in keeper.tools]
            if None not in names:
                return keeper._store, owner, names  # noqa: SLF001  # of this class
        return None

    def _head(self, content: Content, length: int, note: str) -> str:
        space = self._max_chars - len(note) - _LABEL_CHARS
        if isinstance(content, str):
            return (
                f"{content[:space]}\n[The result has {length} characters. These were the first {space}. It is {note}]"
            )
        return f"[The result is JSON of {length} characters, {note}]\n{outline(content, space)}"

    def read_result(
        self,
        handle: Handle,
        context: ToolContext,
        *,
        start: Start = 0,
        limit: Annotated[int | None, Field(ge=1, le=_MAX_NUMBER)] = None,
        unit: Literal["characters", "lines"] = "characters",
        path: str | None = None,
    ) -> str:
        """Read a part of a large result that was not shown to you whole.

        Args:
            start: Where to begin: the number of a character or line, or of an item or member at a path; the first is 0.
            limit: How many to read at most. Less is returned if there is more than you can read at once.
            unit: What `start` and `limit` count in a text.
            path: Of JSON, the part to read, as a JSON Pointer such as "/items/3/name"; "" is all of it.
        """
        with self._open(context, handle) as kept:
            if kept.index is not None:
                return _shown(context, KeptJson(kept, kept.index).read(path or "", start, limit, self._page_chars))
            if path:
                raise ToolError("This result is a text and no JSON: read it without a path.")
            read = page if unit == "characters" else page_of_lines
            return _shown(context, read(kept, start, limit, self._page_chars))

    def search_result(
        self,
        handle: Handle,
        text: Annotated[str, Field(min_length=1, max_length=_MAX_WANTED)],
        context: ToolContext,
        *,
        start: Start = 0,
        limit: Annotated[int, Field(ge=1, le=200)] = 20,
    ) -> str:
        """Find a text in a large result that was not shown to you whole, in upper or lower case.

        Args:
            text: The text to find; it is no pattern.
            start: Where to search on, as an earlier search has said.
            limit: How many places to find at most.

        Returns:
            The places, each with what is there: of a text, the numbers of line and character, each to be passed to the
            tool that reads as `start`, with its `unit`; of JSON, paths.
        """
        with self._open(context, handle) as kept:
            if kept.index is not None:
                return _shown(context, KeptJson(kept, kept.index).search(text, start, limit, self._page_chars))
            return _shown(context, search_text(kept, text, start, limit, self._page_chars))

    @contextlib.contextmanager
    def _open(self, context: ToolContext, handle: str) -> Generator[Kept]:
        """Open a kept result of the session. Raises ToolError for any other handle."""
        owner = None if context.toolkit is None else _owner(context.toolkit)
        with contextlib.nullcontext() if owner is None else self._store.find(owner, handle) as kept:
            if kept is None:
                raise ToolError(_UNKNOWN)
            context._hide(kept.hidden)  # noqa: SLF001  # of this package
            yield kept


def _shown(context: ToolContext, part: str) -> str:
    """Return a part of a result; reports of this call also mask the secrets that are cut where it begins or ends."""
    for name, texts in list_texts(context._links.find_hidden()).items():  # noqa: SLF001  # of this package
        context._hide({name: find_cut_texts(part, texts)})  # noqa: SLF001  # of this package
    return part


def _owner(toolkit: Any) -> Owner | None:
    """Return the session of a toolkit; None for one that has ended.

    Clients that the server cannot distinguish have one in common. Each knows only the handles that it has received.
    """
    view = toolkit._view  # noqa: SLF001  # of this package
    if view.session_state.switches.is_anonymous:
        return Owner(view.store, ())
    try:
        return Owner(view.background_calls, view.lasting_ids)
    except ToolkitError:
        return None


def _content(result: ToolResult) -> tuple[Content, int]:
    """Return what a model would read of a result, as data if it is JSON, and how many characters that is.

    Raises InvalidResultError.
    """
    whole = whole_value(result)
    if result.blocks is not None:
        whole = "\n".join(text for text in map(block_text, result.blocks) if text)
        if result.structured_content is not None and (not whole or _to_data(whole) is not None):
            whole = result.structured_content
    text = to_text(whole)
    data = whole if isinstance(whole, dict | list) else _to_data(text)
    return (text, len(text)) if data is None else (data, len(to_text(data)))


def _to_data(text: str) -> dict[str, Any] | list[Any] | None:
    """Return the object or array that a text is as JSON; None for any other text, and for what has no JSON form."""
    if _JSON.match(text) is None:
        return None
    try:
        data: dict[str, Any] | list[Any] = from_json(text, allow_inf_nan=False)
        to_text(data)
    except (ValueError, TypeError, InvalidResultError):  # a TypeError for lone surrogates
        return None
    return data


def _how_to_read(handle: str, names: Sequence[str], content: Content) -> str:
    reader, searcher = names
    path = "" if isinstance(content, str) else "path, "
    return (
        f"kept for you: read parts with `{reader}` (handle={handle!r}, {path}start, limit), and find a text in it with "
        f"`{searcher}` (handle={handle!r}, text)."
    )
