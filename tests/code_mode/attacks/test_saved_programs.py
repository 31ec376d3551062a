"""A stopped program is continued once, unchanged, by who has its key, and nothing in it can be forged."""

from __future__ import annotations

import base64
import contextlib
import json
import zlib
from collections.abc import Callable
from typing import Any, Final

import pytest

from ahvn_tools import Run
from ahvn_tools.code_mode import CodeLimits, MontySandbox
from ahvn_tools.errors import ToolkitError
from tests.attacks.attack import CANARY
from tests.code_mode.attacks.canaries import Host

CODE: Final = "before = note('x')\nsend('bob', before)"

Forge = Callable[[dict[str, Any]], object]


def stop(host: Host, code: str = CODE) -> Any:
    """Run a program until it needs an approval."""
    answer = {"tool_calls": [{"id": "c1", "function": {"name": "run_code", "arguments": json.dumps({"code": code})}}]}
    return host.kit.run(answer, format="openai")


def put(key: str, value: Any) -> Forge:
    return lambda program: program.update({key: value})


FORGERIES: Final[dict[str, Forge]] = {
    "the code": put("code", "1"),
    "the number of calls": put("calls_made", -1000),
    "the output": put("output", "forged"),
    "the sandbox": put("sandbox", "monty 0"),
    "the version": put("version", 99),
    "no snapshot": put("snapshot", ""),
    "a snapshot that is none": put("snapshot", base64.b64encode(zlib.compress(b"forged")).decode()),
    "a snapshot that is large unpacked": lambda program: program.update(snapshot=bomb()),
    "a shorter snapshot": lambda program: program.update(snapshot=program["snapshot"][:-8]),
    "one bit of the snapshot": lambda program: program.update(snapshot=flip(program["snapshot"])),
    "an image": put("contents", {"[image 1]": {"type": "image", "data": "eA==", "mimeType": "image/png"}}),
    "another tool": lambda program: [call.update(tool="fire_everybody") for call in program["waiting"].values()],
    "a bound argument": lambda program: [call["arguments"].update(user="eve") for call in program["waiting"].values()],
    "no waiting call": put("waiting", {}),
    "the functions": put("functions", {"send": ["fire_everybody", "0"]}),
    "a field more": put("is_approved", True),
    "a field less": lambda program: program.pop("awaits"),
}
"""What is changed in a stored program."""


def bomb() -> str:
    return base64.b64encode(zlib.compress(b"\0" * 100_000_000)).decode()


def flip(text: str) -> str:
    data = bytearray(base64.b64decode(text))
    data[len(data) // 2] ^= 1
    return base64.b64encode(bytes(data)).decode()


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=list(FORGERIES))
@pytest.mark.default_cases(6)
def test_a_forged_program_is_refused(host: Host, forge: Forge) -> None:
    data = stop(host).pending[0].to_json()
    forge(data["program"])
    made = list(host.calls)
    with pytest.raises(ToolkitError):
        host.kit.resume(data, approved=True)
    assert host.calls == made
    assert host.run("ping(1)").value == 1


def test_a_program_of_another_key_is_refused(host: Host, sandbox: MontySandbox) -> None:
    from ahvn_tools import Toolkit

    other = Toolkit("host", state={"user": "eve"}, secret_key=b"z" * 32)
    other.add(host.note, host.send, requires_approval=True).bind("user").bind("token", default=CANARY)
    other.add_code_mode(sandbox=sandbox, limits=CodeLimits())
    with pytest.raises(ToolkitError):
        other.resume(stop(host).pending[0].to_json(), approved=True)
    assert [call[0] for call in host.calls] == ["note"]


def test_the_program_of_one_request_does_not_fit_into_another(host: Host) -> None:
    small, large = (stop(host, f"send('{to}', 'x')").pending[0].to_json() for to in ("ann", "bob"))
    mixed = {**small, "program": large["program"]}
    with pytest.raises(ToolkitError, match="has been changed"):
        host.kit.resume(mixed, approved=True)
    assert host.calls == []


def test_a_request_is_used_once(host: Host) -> None:
    run = stop(host)
    saved = json.loads(json.dumps(run.to_json()))
    host.kit.resume(run, approved=True)
    for replayed in (run, Run.from_json(saved), run.pending[0].to_json()):
        with pytest.raises(ToolkitError, match="used before"):
            host.kit.resume(replayed, approved=True)
    assert [call[0] for call in host.calls] == ["note", "send"]


@pytest.mark.parametrize(
    "arguments", [{"user": "eve"}, {"_meta": {}}, {"to": ["bob"]}, {"to": "bob", "extra": 1}], ids=str
)
def test_edited_arguments_set_no_bound_parameter(host: Host, arguments: dict[str, Any]) -> None:
    run = stop(host)
    with contextlib.suppress(ToolkitError):  # some are refused before the program continues
        host.kit.resume(run, approved=True, arguments={run.pending[0].call_id: arguments})
    assert [call for call in host.calls if call[0] == "send"] == []
    assert host.is_obeyed


def test_a_stored_program_contains_no_bound_value(host: Host) -> None:
    assert CANARY not in json.dumps(stop(host).to_json())
    data = stop(host).pending[0].to_json()["program"]
    assert CANARY.encode() not in zlib.decompress(base64.b64decode(data["snapshot"]))
