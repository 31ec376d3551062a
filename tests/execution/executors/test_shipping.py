"""What of a call is sent to an executor: no secret, and of the state only what the tool names."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from typing import Annotated, Any

import pytest
from pydantic import SecretStr

from ahvn_tools import Secret, Toolkit, ToolSpec, WorkerResolver
from ahvn_tools.errors import DefinitionError, PickleError, ToolkitError
from tests.execution.executors import bodies

CANARY = "canary-4711-secret"


class RecordingExecutor(Executor):
    """Runs everything here, and keeps the pickled requests."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.requests.append(args[0].request)
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@pytest.fixture
def executor() -> RecordingExecutor:
    return RecordingExecutor()


def is_sent(executor: RecordingExecutor, text: str = CANARY) -> bool:
    return any(text.encode() in request for request in executor.requests)


def test_of_the_state_only_the_shipped_keys_and_the_bound_values_are_sent(executor):
    kit = Toolkit("k", executor=executor, state={"user": {"name": "ann-the-user", "id": "id-of-ann"}, "other": CANARY})
    kit.add(bodies.report, bodies.greet, isolation="executor", ship=["user.name"]).bind("user", "user.name")
    session = kit.session(mine=CANARY)
    assert session.call("report", {"n": 0}) == {"user": {"name": "ann-the-user"}}
    assert session.call("greet", {"name": "x"}) == "ann-the-user greets x"
    assert (is_sent(executor), is_sent(executor, "id-of-ann")) == (False, False)


@pytest.mark.parametrize("how", ["annotation", "binding", "preset", "SecretStr"])
def test_a_secret_is_not_sent_unless_the_tool_allows_it(executor, how):
    kit = Toolkit("k", executor=executor, mask_errors=False)
    preset = {"token": SecretStr(CANARY)} if how == "preset" else {}
    body = (
        bodies.fail_with_token if how == "binding" else (bodies.login if how in {"annotation", "preset"} else take_any)
    )
    kit.add(body, isolation="executor", preset=preset)
    kit.add(body, isolation="executor", preset=preset, ship_secrets=True, name="allowed")
    if how != "preset":
        value = SecretStr(CANARY) if how == "SecretStr" else CANARY
        kit.bind("token", default=value, secret=how == "binding")
    arguments = {"name": "x"} if body is bodies.login else {}
    with pytest.raises(PickleError, match=r"'token' of .*ship_secrets=True, or bind the parameter to a WorkerResolver"):
        kit.call(body.__name__, arguments)
    assert executor.requests == []
    result = kit.exec("allowed", arguments)
    assert (is_sent(executor), CANARY in repr(result.error)) == (True, False)


def take_any(token: Any) -> str:
    return type(token).__name__


def test_a_secret_inside_of_another_bound_value_is_not_sent(executor):
    kit = Toolkit("k", executor=executor, state={"user": {"name": "ann", "token": CANARY}})
    kit.add(bodies.fail_with_token, take_user, isolation="executor")
    kit["fail_with_token"].bind("token", "user.token", secret=True)
    kit["take_user"].bind("user", "user")
    with pytest.raises(PickleError, match=r"'user' of 'take_user' has the value of the secret state key 'user.token'"):
        kit.call("take_user")
    kit.state["user"] = {"name": "ann"}
    assert kit.call("take_user") == "ann"
    assert not is_sent(executor)


def take_user(user: dict[str, str]) -> str:
    return user["name"]


def test_a_secret_under_a_shipped_key_is_left_out(executor):
    kit = Toolkit("k", executor=executor, state={"user": {"name": "ann", "token": CANARY}})
    kit.add(bodies.report, isolation="executor", ship=["user"])
    kit.add(bodies.fail_with_token)["fail_with_token"].bind("token", "user.token", secret=True)
    assert kit.call("report", {"n": 0}) == {"user": {"name": "ann"}}
    assert not is_sent(executor)


def test_a_secret_value_under_a_shipped_key_that_nothing_marks_is_refused(executor):
    kit = Toolkit("k", executor=executor, state={"user": {"token": SecretStr(CANARY)}})
    kit.add(bodies.report, isolation="executor", ship=["user"])
    with pytest.raises(PickleError, match="The state under 'user', which 'report' ships, has a secret value"):
        kit.call("report", {"n": 0})


def test_the_secret_default_of_a_function_that_is_sent_by_value_is_refused(executor):
    def local(token: Annotated[str, Secret] = CANARY) -> int:
        return len(token)

    with pytest.raises(PickleError, match="'token' of 'local'"):
        Toolkit("k", executor=executor).add(local, isolation="executor").call("local")
    assert executor.requests == []


def test_a_worker_resolver_takes_the_place_of_a_secret(executor):
    spec = ToolSpec.from_function(bodies.login).bind("token", resolver=WorkerResolver(read_token), secret=True)
    assert spec.submit(executor, name="x").result().value == f"x {len(CANARY)}"
    assert not is_sent(executor)


def read_token() -> str:
    return CANARY[:]


@pytest.mark.exhaustive
def test_the_options_are_checked_where_they_are_written():
    with pytest.raises(DefinitionError, match="'add' has the option ship, and takes no ToolContext"):
        ToolSpec.from_function(bodies.add, ship=["user"])
    with pytest.raises(DefinitionError, match="name the whole list"):
        ToolSpec.from_function(bodies.report, ship=["users[0]"])
    with pytest.raises(DefinitionError, match="ship must be a list of state keys"):
        ToolSpec.from_function(bodies.report, ship="user")
    kit = Toolkit("k")
    with pytest.raises(ToolkitError, match="'add' has the option ship, and takes no ToolContext"):
        kit.add(bodies.add, ship=["user"])
    with pytest.raises(ToolkitError, match="ship_secrets must be True or False"):
        kit.add(bodies.add, ship_secrets="yes")
    with pytest.raises(ToolkitError, match="the executor decides about its workers"):
        kit.add(bodies.add, isolation="executor", keep_children=True)
    assert len(kit) == 0
