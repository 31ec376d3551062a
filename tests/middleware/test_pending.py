"""What every kind of request of a call that waits has."""

from __future__ import annotations

from typing import get_args

import pytest

from ahvn_tools import ToolCall, Toolkit
from ahvn_tools.errors import ToolkitError, ToolSpecError
from ahvn_tools.middleware.pending import FIRST_KEYS, find_kind, read_request
from ahvn_tools.toolkit.background_calls import CallState
from ahvn_tools.toolkit.run import Decisions


def waiting(key: str):
    kit = Toolkit("orders")

    def cancel(number: int) -> str:
        """Cancel an order."""
        return f"cancelled {number}"

    kit.add(cancel, **{"approval": {"requires_approval": True}, "external_call": {"external": True}}[key])
    return kit, kit.run([ToolCall(id="c1", name="cancel", arguments={"number": 1})])


@pytest.mark.parametrize("key", FIRST_KEYS)
def test_each_kind_has_its_error_its_state_and_the_argument_that_decides_on_it(key):
    kit, run = waiting(key)
    (request,), ((_, result),) = run.pending, run.results
    kind = type(request)
    assert kind is FIRST_KEYS[key] is find_kind(result)
    assert (result.error.code, list(result.meta)) == (kind.error.code, [key])
    assert result.error.message == f"The call of 'cancel' needs {kind.needs[0]}, which has been requested."
    assert kind.state in get_args(CallState)
    assert read_request(request.to_json()) == request
    decision = {"approved": True, "results": "cancelled 1"}[kind.decided_by]
    done = kit.resume(run, **{kind.decided_by: {"c1": decision}})
    assert [(result.value, find_kind(result)) for _, result in done.results] == [("cancelled 1", None)]
    for other in {"approved", "results"} - {kind.decided_by}:
        with pytest.raises(ToolkitError, match=rf"Waiting: {kind.decided_by}={{…}}: \['c1'\]"):
            kit.resume(run, **{other: {"c1": True}})


def test_the_argument_that_decides_on_a_kind_is_one_of_resume():
    assert {kind.decided_by for kind in FIRST_KEYS.values()} <= Decisions.__annotations__.keys()


@pytest.mark.parametrize("data", [{}, {"kind": "approval"}, {"kind": []}, {"kind": "other"}, [], None, 1])
def test_other_data_is_no_request(data):
    with pytest.raises(ToolSpecError, match="This is not an approval request"):
        read_request(data)


def test_an_unknown_argument_of_resume_is_an_error_that_names_a_similar_one():
    kit, run = waiting("approval")
    with pytest.raises(TypeError, match="Did you mean 'approved'"):
        kit.resume(run, approve=True)
