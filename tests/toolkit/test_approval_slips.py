"""A person's slip leaves a request open and is told to the host; a model's mistake never reaches a person."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Annotated, Any

import pytest
from pydantic import Field

from ahvn_tools import Secret, ToolCall, Toolkit
from ahvn_tools.errors import InvalidParametersError, ToolkitError
from ahvn_tools.toolkit.run import Run
from tests.toolkit.changing_server import ChangingServer

KEY = "a key that both processes have"
SLIPS = {
    "unknown name": ({"cent": 3}, "unknown argument 'cent'"),
    "wrong type": ({"cents": "lots"}, "'cents'"),
}


class Bank:
    """A toolkit with a payment that needs an approval and a secret."""

    def __init__(self, **options: Any) -> None:
        self.paid: list[Any] = []
        self.asked: list[Any] = []
        self.kit = Toolkit("bank", secret_key=KEY, **options).add(self.pay, requires_approval=True).add(self.look)
        self.kit.bind("token", secret=True)

    def pay(self, to: str, cents: int, token: str) -> str:
        """Pay."""
        self.paid.append((to, cents, token))
        return f"paid {cents}"

    def look(self) -> str:
        """Look."""
        return "looked"

    def approver(self, request: Any) -> Any:
        self.asked.append(request)
        return True

    def answer(self, *cents: Any, **kwargs: Any) -> Run:
        calls = [
            ToolCall(id=f"c{number}", name="pay", arguments={"to": "ann", "cents": amount, **kwargs})
            for number, amount in enumerate(cents)
        ]
        return self.kit.run(calls)


def restored(run: Run) -> Run:
    return Run.from_json(json.loads(json.dumps(run.to_json())))


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize(("edits", "text"), SLIPS.values(), ids=SLIPS)
def test_edits_that_the_tool_refuses_leave_the_request_open(stored, edits, text, tmp_path):
    bank = Bank(approval_store=tmp_path / "approvals.db" if stored else None)
    bank.kit.state["token"] = "canary-token"
    run = bank.answer(500)
    for waiting, arguments in ((run, {"c0": edits}), (run.pending[0], edits), (restored(run), {"c0": edits})):
        with pytest.raises(ToolkitError, match=rf"'pay' refuses the arguments .*{text}.*still open") as caught:
            bank.kit.resume(waiting, approved=True, arguments=arguments)
        assert "lots" not in str(caught.value)
    with pytest.raises(ToolkitError, match="still open"):
        asyncio.run(bank.kit.aresume(run, approved=True, arguments={"c0": edits}))
    assert bank.paid == []
    assert bank.kit.resume(run, approved=True, arguments={"c0": {"cents": 3}}).is_done
    assert bank.paid == [("ann", 3, "canary-token")]


def test_a_secret_that_is_missing_after_a_restart_leaves_the_request_open(tmp_path):
    before, after = [Bank(approval_store=tmp_path / "approvals.db") for _ in range(2)]
    before.kit.state["token"] = "canary-token"
    saved, state = restored(before.answer(500)), before.kit.state_dict()
    assert state["omitted"] == ["state.token"]
    assert "canary" not in json.dumps(state)
    after.kit.load_state_dict(state)
    with pytest.raises(ToolkitError, match=r"'pay' cannot run.*'token'.*set state key 'token'.*still open"):
        after.kit.resume(saved, approved=True)
    after.kit.state["token"] = "canary-token"
    assert after.kit.resume(saved, approved=True).results[0][1].value == "paid 500"
    with pytest.raises(ToolkitError, match="used before"):
        before.kit.resume(saved, approved=True)


def test_a_strict_state_does_not_refuse_a_secret_that_is_left_out():
    bank = Bank()
    bank.kit.state["token"] = "canary-token"
    session = bank.kit.session(token="canary-other", name="ann")
    assert bank.kit.state_dict(strict=True)["omitted"] == ["state.token"]
    assert session.state_dict(strict=True)["state"] == {"name": "ann"}
    assert session.state_dict()["omitted"] == ["state.token"]
    assert bank.kit.session().state_dict()["omitted"] == []


def test_a_slip_in_one_of_several_calls_starts_none_of_them():
    bank = Bank()
    bank.kit.state["token"] = "canary-token"
    run = bank.answer(1, 2, 3)
    with pytest.raises(ToolkitError, match="still open"):
        bank.kit.resume(run, approved={"c0": True, "c1": True, "c2": False}, arguments={"c1": {"cents": "lots"}})
    assert bank.paid == []
    done = bank.kit.resume(run, approved={"c0": True, "c1": True, "c2": False}, arguments={"c1": {"cents": 20}})
    assert sorted(bank.paid) == [("ann", 1, "canary-token"), ("ann", 20, "canary-token")]
    assert done.results[2][1].error.code == "rejected"


def test_a_group_that_is_not_active_after_a_restart_leaves_the_request_open():
    paid: list[int] = []
    kit = Toolkit("bank").add_group("money", active=False)

    @kit.tool(group="money", requires_approval=True)
    def pay(cents: int) -> None:
        paid.append(cents)

    session = kit.session(session_id="ann").activate("money")
    run = session.run([ToolCall(id="c", name="pay", arguments={"cents": 1})])
    later = session.deactivate("money")
    with pytest.raises(ToolkitError, match=r"group 'money' is not active.*still open"):
        later.resume(run, approved=True)
    later.activate("money").resume(run, approved=True)
    assert paid == [1]


def test_a_secret_that_a_server_may_not_receive_leaves_the_request_open():
    server = ChangingServer(weather="city! api_key!")
    kit = Toolkit("k", state={"api_key": "sk-live-4711"}).bind("api_key", secret=True)
    kit.add_mcp(server.fastmcp, requires_approval=True)
    run = kit.run([ToolCall(id="c", name="weather", arguments={"city": "Oslo"})])
    with pytest.raises(ToolkitError, match=r"may not receive \['api_key'\].*still open"):
        kit.resume(run, approved=True)
    assert kit.resume(run, approved=False).is_done


def test_call_raises_what_exec_returns_for_invalid_arguments():
    bank = Bank()
    with pytest.raises(InvalidParametersError, match="unknown argument 'cent'"):
        bank.kit.call("pay", {"to": "ann", "cent": 1})
    (result,) = bank.kit.stream("pay", {"to": "ann", "cent": 1})
    assert result.error.code == "invalid_parameters"


def test_a_resolver_runs_once_for_an_approved_call():
    reads: list[str] = []

    def read() -> str:
        reads.append("read")
        return "canary-token"

    bank = Bank()
    bank.kit.bind("token", resolver=read, secret=True)
    bank.kit.resume(bank.answer(1), approved=True)
    assert (reads, bank.paid) == (["read"], [("ann", 1, "canary-token")])


def test_an_edit_that_is_refused_is_no_guess_of_a_secret_argument():
    paid: list[Any] = []
    kit = Toolkit("bank", secret_key=KEY)

    @kit.tool(requires_approval=True)
    def pay(cents: int, pin: Annotated[str, Secret]) -> None:
        paid.append((cents, pin))

    [request] = kit.run([ToolCall(id="c", name="pay", arguments={"cents": 5, "pin": "1234"})]).pending
    for _ in range(9):
        with pytest.raises(ToolkitError, match="still open"):
            kit.resume(request.to_json(), approved=True, arguments={"pin": "1234", "cents": "lots"})
    kit.resume(request.to_json(), approved=True, arguments={"pin": "1234", "cents": 3})
    assert paid == [(3, "1234")]


def test_a_slip_in_a_call_of_a_program_leaves_its_request_open(sandbox):
    bank = Bank()
    bank.kit.add_code_mode(sandbox=sandbox)
    bank.kit.state["token"] = "canary-token"
    code = "[await pay(to='ann', cents=5), await look()]"
    run = bank.kit.run([ToolCall(id="p", name="run_code", arguments={"code": code})])
    [request] = run.pending
    del bank.kit.state["token"]
    with pytest.raises(ToolkitError, match=r"'pay' cannot run.*'token'"):
        bank.kit.resume(run, approved=True)
    bank.kit.state["token"] = "canary-token"
    with pytest.raises(ToolkitError, match=r"'pay' refuses the arguments .*'cent'"):
        bank.kit.resume(run, approved=True, arguments={request.call_id: {"cent": 3}})
    [(_, result)] = bank.kit.resume(run, approved=True, arguments={request.call_id: {"cents": 3}}).results
    assert result.value == ["paid 3", "looked"]


@pytest.mark.parametrize("arguments", [{"cent": 3}, {"cents": "lots"}, {}])
@pytest.mark.parametrize("kind", ["approver", "waiting", "condition", "async"])
def test_a_call_with_invalid_arguments_goes_back_to_the_model_and_no_person_is_asked(arguments, kind):
    asked: list[Any] = []

    def pay(cents: int) -> int:
        """Pay."""
        raise AssertionError

    def approver(request: Any) -> bool:
        asked.append(request)
        return True

    options: dict[str, Any] = {"approver": approver} if kind in {"approver", "async"} else {}
    condition = (lambda sent: asked.append(sent) or sent["cents"] > 1) if kind == "condition" else True
    kit = Toolkit("bank", **options).add(pay, requires_approval=condition)
    if kind == "async":
        result = asyncio.run(kit.aexec("pay", arguments))
    else:
        result = kit.exec("pay", arguments)
    assert result.error.code == "invalid_parameters"
    assert "'cents'" in result.text
    assert asked == []
    assert kit.run([ToolCall(id="c", name="pay", arguments=arguments)]).is_done


async def test_a_served_call_with_invalid_arguments_asks_nobody():
    from fastmcp import Client

    bank = Bank()
    served = Toolkit("served", approver=bank.approver, state={"token": "canary-token"})
    served.add(bank.pay, requires_approval=True, binds={"token": "token"})
    async with Client(served.to_fastmcp_server()) as client:
        result = await client.call_tool("pay", {"to": "ann", "cent": 1}, raise_on_error=False)
        assert result.is_error
        assert "unknown argument 'cent'" in result.content[0].text
        assert bank.asked == []
        assert (await client.call_tool("pay", {"to": "ann", "cents": 1})).data == "paid 1"
    assert len(bank.asked) == 1


def test_a_program_reads_what_is_wrong_and_no_person_is_asked(sandbox):
    asked: list[Any] = []
    kit = Toolkit("bank", approver=lambda request: asked.append(request) or True)

    @kit.tool(requires_approval=True)
    def pay(cents: Annotated[int, Field(ge=0)]) -> int:
        return cents

    kit.add_code_mode(sandbox=sandbox)
    result = kit.exec("run_code", {"code": "await pay(cents=-1)"})
    assert "'cents'" in result.text
    assert asked == []


def test_edits_of_an_approver_that_the_tool_refuses_are_told_to_the_host_and_not_to_the_model(caplog):
    kit = Toolkit("bank", approver=lambda request: {"cents": "canary-lots"})

    @kit.tool(requires_approval=True)
    def pay(cents: int) -> int:
        raise AssertionError

    with caplog.at_level(logging.WARNING):
        result = kit.exec("pay", {"cents": 1})
    assert result.error.code == "tool_error"
    assert "was approved with other arguments" in result.text
    assert "int" not in result.text.split("approved")[1]
    assert "returned arguments that the tool refuses: Invalid arguments: 'cents'" in caplog.text
    assert "canary" not in caplog.text + result.text


def test_a_served_toolkit_without_an_approver_says_which_calls_nobody_can_approve(caplog):
    bank = Bank()
    bank.kit.to_fastmcp_server()
    bank.kit.to_fastmcp_server()
    assert caplog.text.count("The tool 'pay': calls that need an approval do not run, because the toolkit has no") == 1
    caplog.clear()
    Bank(approver=bank.approver).kit.to_fastmcp_server()
    bank.kit.select(names=["look"]).to_fastmcp_server()
    assert caplog.text == ""


def test_a_strict_toolkit_without_an_approver_can_be_served(caplog):
    bank = Bank(strict=True)
    bank.kit.to_fastmcp_server()
    assert "The tool 'pay'" in caplog.text


def test_a_langchain_tool_that_nobody_can_approve_is_named_when_it_is_made(caplog):
    pytest.importorskip("langchain_core", reason='needs LangChain: pip install "ahvn-tools[langchain]"')
    bank = Bank()
    bank.kit["look"].to_langchain()
    assert caplog.text == ""
    bank.kit["pay"].to_langchain()
    assert "The tool 'pay': calls that need an approval do not run" in caplog.text
