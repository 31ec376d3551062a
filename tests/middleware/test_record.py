"""Record and replay: calls and their results are written to a file and read from it, without secrets."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from fastmcp import Client
from fastmcp.utilities.types import Image
from mcp_types import EmbeddedResource, ResourceLink, TextContent, TextResourceContents
from pydantic import BaseModel, SecretStr

from ahvn_tools import ToolCall, ToolContext, ToolError, Toolkit, ToolResult
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import ToolCallError, ToolNotAvailableError, ToolSpecError
from ahvn_tools.middleware.record import record, replay
from ahvn_tools.redaction.names import Secret


class Point(BaseModel):
    """A place."""

    x: int
    y: float


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


def place(x: int) -> Point:
    return Point(x=x, y=0.5)


def fail(text: str) -> None:
    raise ToolError(f"no {text}")


def count(until: int):
    for number in range(until):
        yield f"n{number}"


async def acount(until: int):
    for number in range(until):
        yield f"n{number}"


def picture() -> Image:
    return Image(data=b"\x89PNG", format="png")


def blocks() -> list[Any]:
    return [
        TextContent(type="text", text="see"),
        ResourceLink(type="resource_link", name="a", uri="file:///a.txt"),
        EmbeddedResource(type="resource", resource=TextResourceContents(uri="file:///b.txt", text="b")),
    ]


def nothing() -> None:
    """Return nothing."""


TOOLS = (add, place, fail, count, acount, picture, blocks, nothing)


def kit_of(middleware: Any = None, *tools: Any, **options: Any) -> Toolkit:
    kit = Toolkit("k", middleware=[] if middleware is None else [middleware], **options)
    for tool in tools or TOOLS:
        kit.add(tool)
    return kit


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines() if line]


def shape(result: ToolResult) -> tuple[Any, ...]:
    """Return all of a result but its id."""
    return (
        result.value, result.structured_content, result.error, result.meta, result.is_last, result.is_interrupted,
        result.content,
    )  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "calls.jsonl"


# there and back


CALLS = [
    ("add", {"a": 1}), ("add", {"a": "x"}), ("place", {"x": 3}), ("fail", {"text": "milk"}), ("count", {"until": 2}),
    ("picture", {}), ("blocks", {}), ("nothing", {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments"), CALLS)
def test_a_call_is_replayed_with_its_complete_result(file, name, arguments):
    recorded = kit_of(record(file)).exec(name, arguments)
    replayed = kit_of(replay(file)).exec(name, arguments)
    assert shape(replayed) == shape(recorded)


def test_no_body_runs_in_a_replay(file):
    ran = []

    def note(text: str) -> int:
        ran.append(text)
        return len(ran)

    assert kit_of(record(file), note).call("note", {"text": "a"}) == 1
    assert kit_of(replay(file), note).call("note", {"text": "a"}) == 1
    assert ran == ["a"]


@pytest.mark.parametrize("name", ["count", "acount"])
async def test_a_stream_is_replayed_chunk_by_chunk(file, name):
    recorded = [shape(result) async for result in kit_of(record(file)).astream(name, {"until": 3})]
    kit = kit_of(replay(file))
    replayed = [result async for result in kit.astream(name, {"until": 3})]
    assert [shape(result) for result in replayed] == recorded
    assert [result.value for result in replayed] == ["n0", "n1", "n2", ["n0", "n1", "n2"]]
    assert len({result.id for result in replayed}) == 1
    assert kit.call(name, {"until": 3}) == ["n0", "n1", "n2"]


def test_a_stream_is_replayed_to_a_sync_reader(file):
    kit_of(record(file)).exec("add", {"a": 1})
    list(kit_of(record(file)).stream("count", {"until": 2}))
    assert [r.value for r in kit_of(replay(file)).stream("count", {"until": 2})] == ["n0", "n1", ["n0", "n1"]]
    assert [r.value for r in kit_of(replay(file)).stream("add", {"a": 1})] == [2]


def test_a_replayed_result_has_the_id_of_the_call_that_it_answers(file):
    kit_of(record(file)).exec("add", {"a": 1})
    answer = {"tool_calls": [{"id": "c7", "function": {"name": "add", "arguments": '{"a": 1}'}}]}
    assert list(kit_of(replay(file)).run(answer, format="openai")) == [
        {"role": "tool", "tool_call_id": "c7", "content": "2"}
    ]


def test_a_failed_call_raises_in_a_replay_by_its_code(file):
    with pytest.raises(ToolError):
        kit_of(record(file)).call("fail", {"text": "milk"})
    with pytest.raises(ToolError, match="no milk"):
        kit_of(replay(file)).call("fail", {"text": "milk"})


def test_the_order_of_arguments_does_not_matter(file):
    kit_of(record(file)).exec("add", {"a": 1, "b": 2})
    assert kit_of(replay(file)).call("add", {"b": 2, "a": 1}) == 3


def test_recordings_of_the_same_call_are_used_in_order_then_the_last_is_repeated(file):
    answers = iter(["a", "b"])

    def turn() -> str:
        return next(answers)

    kit = kit_of(record(file), turn)
    assert [kit.call("turn"), kit.call("turn")] == ["a", "b"]
    kit = kit_of(replay(file), turn)
    assert [kit.call("turn") for _ in range(4)] == ["a", "b", "b", "b"]


def test_changing_a_replayed_result_does_not_affect_the_next(file):
    kit_of(record(file)).exec("count", {"until": 2})
    kit = kit_of(replay(file))
    first = kit.exec("count", {"until": 2})
    first.value.clear()
    first.meta.clear()
    second = kit.exec("count", {"until": 2})
    assert (second.value, list(second.meta)) == (["n0", "n1"], ["duration"])


def test_several_runs_append_to_one_recording(file):
    kit_of(record(file)).exec("add", {"a": 1})
    kit_of(record(file)).exec("add", {"a": 2})
    kit = kit_of(replay(file))
    assert [kit.call("add", {"a": 1}), kit.call("add", {"a": 2})] == [2, 3]


def test_a_refusal_by_inner_middleware_is_recorded_as_its_error(file):
    async def refuse(call, next):
        raise ToolNotAvailableError("not today")

    kit = kit_of(record(file))
    kit.use(refuse)
    assert kit.exec("add", {"a": 1}).error.code == "not_available"
    assert kit_of(replay(file)).exec("add", {"a": 1}).error.message == "not today"


def interrupting(error: ErrorDetail | None):
    async def interrupt(call, next):
        return ToolResult("half", error=error, is_interrupted=True)

    return interrupt


def test_a_timeout_that_interrupted_a_call_is_replayed_as_one(file):
    kit = kit_of(record(file))
    kit.use(interrupting(ErrorDetail(code="timeout", message="late")))
    kit.exec("add", {"a": 1})
    replayed = kit_of(replay(file)).exec("add", {"a": 1})
    assert (replayed.error.code, replayed.is_interrupted) == ("timeout", True)


@pytest.mark.parametrize("error", [None, ErrorDetail(code="cancelled", message="gone")])
def test_the_partial_result_of_a_cancelled_call_is_not_recorded(file, error):
    kit = kit_of(record(file))
    kit.use(interrupting(error))
    kit.exec("add", {"a": 1})
    assert lines(file) == []


# what is not recorded


def test_a_call_without_a_recording_is_an_error(file):
    kit_of(record(file)).exec("add", {"a": 1})
    kit = kit_of(replay(file))
    missed, unknown = kit.exec("add", {"a": 2}), kit.exec("nothing")
    assert (missed.error.code, unknown.error.code) == ("not_available", "not_available")
    assert missed.text == "'calls.jsonl' has no call of tool 'add' with these arguments. Record it again."
    assert unknown.text == "'calls.jsonl' has no call of tool 'nothing'. Record it again."
    with pytest.raises(ToolNotAvailableError):
        kit.call("nothing")


async def test_a_cancelled_call_is_not_recorded(file):
    async def hang() -> None:
        await asyncio.sleep(30)

    task = asyncio.create_task(kit_of(record(file), hang).aexec("hang"))
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert lines(file) == []


async def test_a_stream_whose_reader_leaves_is_not_recorded(file):
    results = kit_of(record(file)).astream("acount", {"until": 3})
    await anext(results)
    await results.aclose()
    assert lines(file) == []


# a tool that has changed


def changed_add(a: int, b: int = 1) -> int:
    """Add two numbers, in another way."""
    return a + b


def test_a_changed_tool_is_refused(file):
    kit_of(record(file)).exec("add", {"a": 1})
    kit = Toolkit("k", middleware=[replay(file)]).add(changed_add, rename="add")
    refused = kit.exec("add", {"a": 1})
    assert refused.error.code == "changed"
    assert refused.text == "Tool 'add' has changed since 'calls.jsonl' was recorded. Record it again."
    with pytest.raises(ToolCallError):
        kit.call("add", {"a": 1})


def test_a_changed_tool_is_replayed_with_a_warning_if_allowed(file, caplog):
    kit_of(record(file)).exec("add", {"a": 1})
    kit = Toolkit("k", middleware=[replay(file, allow_changed=True)]).add(changed_add, rename="add")
    result = kit.exec("add", {"a": 1})
    assert (result.value, result.meta["changed"]) == (2, True)
    assert "Tool 'add' has changed since 'calls.jsonl' was recorded." in caplog.text


# secrets and bound values


def greet(name: str, key: Annotated[str, Secret], user: str, api_token: str = "") -> dict[str, Any]:
    """Greet."""
    return {"said": f"{name} {key} {user} {api_token}", user: [key, 1]}


def test_secrets_and_bound_values_are_never_written(file):
    kit = kit_of(record(file), greet, state={"user": "user-123456"}).bind("user")
    list(kit.stream("greet", {"name": "ann", "key": "sesame-open", "api_token": "abcdefgh"}))
    text = file.read_text()
    for hidden in ("user-123456", "sesame-open", "abcdefgh"):
        assert hidden not in text
    (line,) = lines(file)
    assert line["arguments"] == {"name": "ann", "key": "***", "api_token": "***"}
    assert line["result"]["value"] == {"said": "ann <key> <user> <api_token>", "<user>": ["<key>", 1]}


KEY = "a key that both processes have"
KEYED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "toolkit": ({}, {"secret_key": KEY}),
    "middleware": ({"secret_key": KEY}, {}),
    "middleware over toolkit": ({"secret_key": KEY}, {"secret_key": KEY[::-1]}),
}
"""Where the key is passed: options of the middleware, and of the toolkit."""


@pytest.mark.parametrize(("own", "of_kit"), KEYED.values(), ids=KEYED)
def test_a_replay_with_a_key_distinguishes_calls_by_their_secrets(file, own, of_kit):
    kit = kit_of(record(file, **own), greet, state={"user": "user-123456"}, **of_kit).bind("user")
    kit.exec("greet", {"name": "ann", "key": "sesame-open"})
    kit = kit_of(replay(file, **own), greet, state={"user": "user-123456"}, **of_kit).bind("user")
    assert kit.exec("greet", {"name": "ann", "key": "sesame-open"}).value["said"] == "ann <key> <user> "
    assert kit.exec("greet", {"name": "ann", "key": "sesame-shut"}).error.code == "not_available"


def test_without_a_key_calls_that_differ_in_secrets_only_are_replayed_in_order(file):
    answers = iter(["first", "second"])

    def login(name: str, pin: Annotated[str, Secret]) -> str:
        return next(answers)

    kit = kit_of(record(file), login)
    kit.exec("login", {"name": "ann", "pin": "4071"}), kit.exec("login", {"name": "ann", "pin": "1704"})
    kit = kit_of(replay(file), login)
    assert [kit.call("login", {"name": "ann", "pin": pin}) for pin in ("1704", "4071")] == ["first", "second"]
    assert kit.exec("login", {"name": "bob", "pin": "4071"}).error.code == "not_available"


def test_without_a_key_nothing_is_written_that_depends_on_a_secret(file):
    """A digest that anybody could compute would be compared with those of all 10,000 PINs."""

    def login(pin: Annotated[str, Secret]) -> str:
        return "welcome"

    kit = kit_of(record(file), login)
    kit.exec("login", {"pin": "4071"}), kit.exec("login", {"pin": "1704"})
    first, second = lines(file)
    assert first["digest"] is None
    assert first["result"].pop("meta").keys() == second["result"].pop("meta").keys() == {"duration"}
    assert first == second


def test_with_a_key_the_digest_depends_on_it(file):
    for key in (KEY, KEY[::-1]):
        kit_of(record(file, secret_key=key)).exec("add", {"a": 1})
    first, second = (line["digest"] for line in lines(file))
    assert len(first) == len(second) == 64
    assert first != second


@pytest.mark.parametrize("key", [None, KEY[::-1]])
def test_a_recording_made_with_another_key_says_so(file, key):
    kit_of(record(file, secret_key=KEY)).exec("add", {"a": 1})
    missed = kit_of(replay(file, secret_key=key)).exec("add", {"a": 1})
    assert missed.text == (
        "'calls.jsonl' has no call of tool 'add' with these arguments, or it was recorded with another secret_key. "
        "Record it again."
    )


@pytest.mark.parametrize("make", [record, replay])
def test_a_short_key_is_refused(file, make: Callable[..., Any]):
    with pytest.raises(ToolSpecError, match="at least 16 bytes"):
        make(file, secret_key="short")


def test_a_recorded_call_that_waits_for_an_approval_is_resumed_in_the_replay(file):
    def remove(path: str, pin: Annotated[str, Secret]) -> str:
        return f"removed {path}"

    calls = [ToolCall(id="c1", name="remove", arguments={"path": "/x", "pin": "4071"})]
    kit = Toolkit("k", middleware=[record(file)]).add(remove, requires_approval=True)
    kit.resume(kit.run(calls), approved=True)
    kit = Toolkit("k", middleware=[replay(file)]).add(remove, requires_approval=True)
    waiting = kit.run(calls)
    assert [request.call_id for request in waiting.pending] == ["c1"]
    assert kit.resume(waiting, approved=True).results[0][1].value == "removed /x"


class Account:
    """A user that is no data."""


class Login(BaseModel):
    name: str
    token: SecretStr


class UserName(str):
    __slots__ = ()


USERS: dict[str, tuple[Any, Any]] = {
    "text": ("ann", "bob"),
    "number": (1, 2),
    "subclass of str": (UserName("ann"), UserName("bob")),
    "object": ({"id": "ann", "roles": {"x", "y"}}, {"id": "bob", "roles": {"x", "y"}}),
    "secret": (SecretStr("token-of-ann"), SecretStr("token-of-bob")),
    "model with a secret": (Login(name="x", token="token-of-ann"), Login(name="x", token="token-of-bob")),
    "data with an object": ({"id": "ann", "of": Account()}, {"id": "bob", "of": Account()}),
}
"""The values of two users."""


def notes(middleware: Any, *, of: str = "bound", **options: Any) -> Toolkit:
    """Return a toolkit whose tool `search` answers with how many calls there were, and its user's data."""
    calls = iter(range(100))

    def search(query: str, user: Any) -> str:
        return f"note {next(calls)}"

    async def asearch(query: str, user: Any) -> str:
        return f"note {next(calls)}"

    def csearch(query: str, context: ToolContext) -> str:
        return f"note {next(calls)} of {type(context.state['user'])}"

    kit = Toolkit("notes", middleware=[middleware], **options)
    body = {"async": asearch, "context": csearch}.get(of, search)
    kit.add(body, name="search")
    if of == "resolver":
        return kit.bind("user", resolver=lambda state: state["user"])
    return kit if of == "context" else kit.bind("user", secret=of == "secret")


@pytest.mark.parametrize("of", ["bound", "secret", "async", "context", "resolver"])
@pytest.mark.parametrize(("ann", "bob"), USERS.values(), ids=USERS)
def test_a_replay_distinguishes_the_calls_of_users_by_their_bound_values(file, ann, bob, of):
    live = notes(record(file), of=of, secret_key=KEY)
    recorded = [live.session(user=user).call("search", {"query": "tea"}) for user in (ann, bob)]
    offline = notes(replay(file), of=of, secret_key=KEY)
    assert [offline.session(user=user).call("search", {"query": "tea"}) for user in (bob, ann)] == recorded[::-1]
    assert offline.session(user="cy").exec("search", {"query": "tea"}).text == (
        "'calls.jsonl' has no call of tool 'search' with these arguments and bound values, or it was recorded with "
        "another secret_key. Record it again."
    )
    assert "ann" not in file.read_text() + repr(offline)


async def test_a_served_replay_distinguishes_the_clients_by_their_state(file):
    async def search(kit: Toolkit, *users: str) -> list[str]:
        server = kit.to_fastmcp_server(state=lambda request: {"user": request.meta["user"]})
        async with Client(server) as client:
            found = [
                await client.call_tool("search", {"query": "tea"}, meta={"user": user}, raise_on_error=False)
                for user in users
            ]
        return [result.content[0].text for result in found]

    first, second = await search(notes(record(file), secret_key=KEY), "ann", "bob")
    replayed = await search(notes(replay(file), secret_key=KEY), "bob", "ann", "cy")
    assert replayed[:2] == [second, first]
    assert "with these arguments and bound values" in replayed[2]


@pytest.mark.parametrize("of", ["bound", "secret", "context"])
def test_without_a_key_no_user_gets_the_result_of_another(file, of, caplog):
    notes(record(file), of=of).session(user="ann-123456").call("search", {"query": "tea"})
    assert "a replay of its calls needs a secret_key" in caplog.text
    assert "ann-123456" not in file.read_text()
    missed = notes(replay(file), of=of).session(user="ann-123456").exec("search", {"query": "tea"})
    assert missed.error.code == "not_available"
    assert missed.text.startswith(
        "Calls of tool 'search' read bound values or the state, which only a secret_key can compare."
    )
    missed = notes(replay(file), of=of, secret_key=KEY).session(user="ann-123456").exec("search", {"query": "tea"})
    assert missed.text.endswith("or it was recorded without a secret_key. Record it again.")


def test_bound_values_are_compared_in_another_process(file):
    program = (
        "import sys\n"
        "from ahvn_tools import Toolkit\n"
        "from ahvn_tools.middleware import record\n"
        "def search(query: str, user: dict) -> str: return 'note'\n"
        "kit = Toolkit('notes', middleware=[record(sys.argv[1])], secret_key=sys.argv[2]).add(search).bind('user')\n"
        "kit.session(user={'id': 'ann', 'roles': set('abcdefgh')}).call('search', {'query': 'tea'})\n"
    )
    subprocess.run([sys.executable, "-c", program, file, KEY], check=True)
    offline = notes(replay(file, allow_changed=True), secret_key=KEY)
    assert offline.session(user={"id": "ann", "roles": set("abcdefgh")}).call("search", {"query": "tea"}) == "note"
    assert offline.session(user={"id": "ann", "roles": set()}).exec("search", {"query": "tea"}).is_error


def test_a_bound_iterator_is_not_read_by_the_recorder(file):
    def take(user: Any) -> list[int]:
        return list(user)

    kit = kit_of(record(file), take, secret_key=KEY).bind("user")
    assert kit.session(user=iter([1, 2])).call("take") == [1, 2]
    assert kit.session(user=(number for number in (1, 2))).call("take") == [1, 2]


def test_a_resolver_that_fails_is_recorded_as_its_error(file):
    def fetch() -> str:
        raise OSError("canary-7f3a9c")

    def whoami(user: str) -> str:
        return user

    kit = kit_of(record(file), whoami, secret_key=KEY).bind("user", resolver=fetch)
    error = kit.exec("whoami").error
    assert lines(file)[0]["result"]["error"]["code"] == error.code == "unbound_state"
    assert "canary" not in file.read_text()


def test_the_value_of_a_resolver_is_not_written(file):
    async def fetch() -> str:
        return "fetched-123456"

    def whoami(user: str) -> str:
        return f"you are {user}"

    kit = kit_of(record(file), whoami).bind("user", resolver=fetch)
    kit.exec("whoami")
    assert lines(file)[0]["result"]["value"] == "you are <user>"


def test_the_text_of_an_error_is_masked(file):
    def refuse(key: Annotated[str, Secret]) -> None:
        raise ToolError(f"{key} is wrong")

    kit_of(record(file), refuse).exec("refuse", {"key": "sesame-open"})
    assert lines(file)[0]["result"]["error"] == {"code": "tool_error", "message": "<key> is wrong"}


def test_a_bound_value_that_equals_a_key_of_the_file_does_not_break_it(file):
    def tell(word: str) -> list[Any]:
        return [TextContent(type="text", text=word), *blocks()]

    for word in ("structured_content", "duration", "resource", "resource_link", "recording", "message"):
        file.unlink(missing_ok=True)
        kit_of(record(file), tell, state={"word": word}, secret_key=KEY).bind("word").exec("tell")
        replayed = kit_of(replay(file), tell, state={"word": word}, secret_key=KEY).bind("word").exec("tell")
        assert [block.type for block in replayed.content] == ["text", *(block.type for block in blocks())]
        assert replayed.content[0].text == "<word>"


# many writers


def test_threads_and_loops_write_whole_lines(file):
    kit = kit_of(record(file))

    def sync_work(start: int) -> None:
        for number in range(start, start + 50):
            kit.exec("add", {"a": number})

    def async_work(start: int) -> None:
        async def many() -> None:
            await asyncio.gather(*(kit.aexec("add", {"a": number}) for number in range(start, start + 50)))

        asyncio.run(many())

    threads = [threading.Thread(target=sync_work, args=(start,)) for start in (0, 100)]
    threads += [threading.Thread(target=async_work, args=(start,)) for start in (200, 300)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    written = sorted(line["arguments"]["a"] for line in lines(file))
    assert written == [start + number for start in (0, 100, 200, 300) for number in range(50)]


WRITER = """
import sys
from ahvn_tools import Toolkit
from ahvn_tools.middleware.record import record

def same(a: str) -> str:
    return a

kit = Toolkit("k", middleware=[record(sys.argv[1])]).add(same)
for number in range(50):
    kit.exec("same", {"a": f"{sys.argv[2]}{number}" * 1000})
"""


@pytest.mark.exhaustive
def test_processes_write_whole_lines(file):
    root = str(Path(__file__).parents[3])
    children = [subprocess.Popen([sys.executable, "-c", WRITER, str(file), letter], cwd=root) for letter in "ab"]
    assert [child.wait(30) for child in children] == [0, 0]
    written = sorted(line["arguments"]["a"] for line in lines(file))
    assert written == sorted(f"{letter}{number}" * 1000 for letter in "ab" for number in range(50))


def test_many_threads_share_the_recordings_of_a_call(file):
    answers = iter(range(40))

    def turn() -> int:
        return next(answers)

    recording = kit_of(record(file), turn)
    for _ in range(40):
        recording.exec("turn")
    kit, seen = kit_of(replay(file), turn), []

    def work() -> None:
        seen.extend(kit.call("turn") for _ in range(10))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(40))


@pytest.mark.skipif(sys.platform != "linux", reason="counts open files by /proc")
def test_no_file_stays_open(file):
    before = len(list(Path("/proc/self/fd").iterdir()))
    kit = kit_of(record(file))
    for number in range(20):
        kit.exec("add", {"a": number})
    kit_of(replay(file)).exec("add", {"a": 1})
    assert len(list(Path("/proc/self/fd").iterdir())) == before


# broken files


def test_an_unfinished_line_is_skipped_with_a_warning(file, caplog):
    kit = kit_of(record(file))
    kit.exec("add", {"a": 1})
    kit.exec("add", {"a": 2})
    file.write_bytes(file.read_bytes()[:-30])
    kit = kit_of(replay(file))
    assert "Line 2 of 'calls.jsonl' is incomplete" in caplog.text
    assert kit.call("add", {"a": 1}) == 2
    assert kit.exec("add", {"a": 2}).error.code == "not_available"


@pytest.mark.parametrize("left", [1, 5, 20])
def test_a_recording_continues_after_an_unfinished_line(file, left, caplog):
    kit_of(record(file)).exec("add", {"a": 1})
    file.write_bytes(file.read_bytes()[:left])
    kit_of(record(file)).exec("add", {"a": 2})
    assert kit_of(replay(file)).call("add", {"a": 2}) == 3
    assert "Line 1 of 'calls.jsonl' is incomplete" in caplog.text


def test_empty_lines_are_ignored(file, caplog):
    kit_of(record(file)).exec("add", {"a": 1})
    file.write_text(f"\n{file.read_text()}\n\n")
    assert kit_of(replay(file)).call("add", {"a": 1}) == 2
    assert not caplog.records


def test_an_empty_recording_misses_every_call(file):
    record(file)
    assert kit_of(replay(file)).exec("add", {"a": 1}).error.code == "not_available"


NOT_RECORDINGS = ["hello\n", "[1, 2]\n", '{"tool": "add"}\n', "\xff\xfe\n", '{"recording": 1}\n']


@pytest.mark.parametrize("content", NOT_RECORDINGS)
@pytest.mark.parametrize("make", [record, replay])
def test_a_file_that_is_not_a_recording_is_refused_and_not_changed(file, make: Callable[..., Any], content):
    file.write_text(content, encoding="latin-1")
    with pytest.raises(ToolSpecError, match=r"Line 1 of .*calls\.jsonl' is not a recorded call"):
        make(file)
    assert file.read_text(encoding="latin-1") == content


@pytest.mark.parametrize("make", [record, replay])
def test_a_recording_of_another_version_is_refused(file, make: Callable[..., Any]):
    kit_of(record(file)).exec("add", {"a": 1})
    file.write_text(file.read_text().replace('"recording":3', '"recording":4'))
    with pytest.raises(ToolSpecError, match="another version"):
        make(file)


def test_a_missing_folder_is_an_error_when_the_middleware_is_created(tmp_path):
    with pytest.raises(ToolSpecError, match=r"Cannot record to .*: No such file .* existing folder"):
        record(tmp_path / "no" / "calls.jsonl")


@pytest.mark.parametrize("make", [record, replay])
def test_a_folder_is_refused(tmp_path, make: Callable[..., Any]):
    with pytest.raises(ToolSpecError, match="Is a directory"):
        make(tmp_path)


@pytest.mark.parametrize("make", [record, replay])
@pytest.mark.parametrize("device", ["/dev/full", "/dev/zero", "/dev/null"])
def test_a_device_is_refused_at_once(make: Callable[..., Any], device):
    with pytest.raises(ToolSpecError, match="It is no regular file"):
        make(device)


@pytest.mark.parametrize("make", [record, replay])
def test_a_pipe_is_refused_and_not_waited_for(file, make: Callable[..., Any]):
    os.mkfifo(file)
    with pytest.raises(ToolSpecError, match="It is no regular file"):
        make(file)


@pytest.mark.parametrize("is_made_first", [True, False])
def test_nothing_is_recorded_through_a_link(file, tmp_path, is_made_first, caplog):
    """Not even when the link takes the place of the recording later."""
    other = tmp_path / "other"
    if is_made_first:
        kit = kit_of(record(file))
        file.rename(other)
        file.symlink_to(other)
        with caplog.at_level(logging.ERROR):
            assert kit.exec("add", {"a": 1}).error is None
        assert "It is a link" in caplog.text
        assert other.read_text() == ""
    else:
        file.symlink_to(other)
        with pytest.raises(ToolSpecError, match="It is a link: use the path of the file that it leads to"):
            record(file)
        assert not other.exists()


def test_a_recording_is_replayed_through_a_link_but_no_device(file, tmp_path):
    kit_of(record(file)).exec("add", {"a": 1})
    link = tmp_path / "link"
    link.symlink_to(file)
    assert kit_of(replay(link)).exec("add", {"a": 1}).error is None
    link.unlink()
    link.symlink_to("/dev/zero")
    with pytest.raises(ToolSpecError, match="It is no regular file"):
        replay(link)


def test_a_missing_recording_is_an_error_when_the_middleware_is_created(file):
    with pytest.raises(ToolSpecError, match=r"Cannot replay .*: No such file .* Record it first"):
        replay(file)


def test_a_line_that_cannot_be_written_does_not_change_the_result(file, caplog):
    kit = kit_of(record(file))
    file.unlink()
    file.mkdir()
    with caplog.at_level(logging.ERROR):
        assert kit.call("add", {"a": 1}) == 2
    assert "Cannot record a call of tool 'add' in 'calls.jsonl': Is a directory." in caplog.text


def test_a_relative_path_is_resolved_when_the_middleware_is_created(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kit = kit_of(record("calls.jsonl"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    kit.exec("add", {"a": 1})
    assert len(lines(tmp_path / "calls.jsonl")) == 1


def test_arguments_are_recorded_before_the_body_can_change_them(file):
    def clear(items: list[Any]) -> int:
        items.clear()
        return 0

    kit_of(record(file), clear).exec("clear", {"items": [{"a": 1}]})
    assert lines(file)[0]["arguments"] == {"items": [{"a": 1}]}


def test_a_value_without_a_json_form_is_recorded_as_its_type(file):
    async def odd(call, next):
        return ToolResult({1: object()})

    kit = kit_of(record(file))
    kit.use(odd)
    kit.exec("add", {"a": 1})
    assert kit_of(replay(file)).call("add", {"a": 1}) == {"1": "<object>"}


def test_a_replayed_approval_request_has_the_id_of_the_new_call(file):
    def resumed(middleware, call_id: str) -> list[Any]:
        kit = Toolkit("kit", middleware=[middleware]).add(add, requires_approval=True)
        session = kit.session()
        waiting = session.run([ToolCall(id=call_id, name="add", arguments={"a": 1})])
        assert [request.call_id for request in waiting.pending] == [call_id]
        return [result.value for _, result in session.resume(waiting, approved=True).results]

    assert resumed(record(file), "live") == [2]
    assert [line["result"]["error"]["code"] if "error" in line["result"] else "ok" for line in lines(file)] == [
        "approval_required", "ok",
    ]  # fmt: skip
    assert resumed(replay(file), "again") == [2]


def test_an_exception_of_inner_middleware_is_recorded_and_replayed(file):
    def broken(call, result):
        raise LookupError("canary-7f3a9c")

    kit = Toolkit("kit", middleware=[record(file)]).add(add, postprocess=broken)
    message = kit.exec("add", {"a": 1}).error
    assert Toolkit("kit", middleware=[replay(file)]).add(add).exec("add", {"a": 1}).error == message
    assert "canary" not in file.read_text()
