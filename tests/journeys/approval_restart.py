"""An agent asks for an approval and ends; the next day another process goes on with what a person has decided."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

from ahvn_tools import Run, Secret, Toolkit
from ahvn_tools.errors import ToolkitError

folder = Path(sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp())
payments = folder / "payments.txt"
kit = Toolkit("bank", secret_key="0123456789abcdef" * 2, approval_store=folder / "approvals.db").bind("user")


@kit.tool(requires_approval=lambda arguments: arguments["amount"] > 100)
def pay(amount: int, to: str, pin: Annotated[str, Secret], user: str) -> str:
    """Pay somebody."""
    paid = payments.read_text() if payments.exists() else ""
    payments.write_text(f"{paid}{user} {amount} {to} {pin};")
    return f"paid {amount} to {to}"


def ask() -> None:
    """Run the model's calls: one is small, two wait. Save what is needed to go on."""
    session, calls = kit.session(user="ann", session_id="s-1"), []
    for number, amount, to in ((1, 5, "eve"), (2, 500, "bob"), (3, 900, "max")):
        arguments = json.dumps({"amount": amount, "to": to, "pin": "pin-4711"})
        calls.append({"id": f"c{number}", "function": {"name": "pay", "arguments": arguments}})
    run = session.run({"tool_calls": calls}, format="openai")
    assert (run.is_done, len(run), [request.call_id for request in run.pending]) == (False, 0, ["c2", "c3"])
    (folder / "run.json").write_text(json.dumps([session.state_dict(), run.to_json()]))


def decide() -> None:
    """Approve one call with a smaller amount, reject the other, and try to approve again."""
    state, data = json.loads((folder / "run.json").read_text())
    assert "pin-4711" not in str(data)
    session, run = kit.session(session_id="s-1").load_state_dict(state), Run.from_json(data)
    own = {"c2": {"amount": 400, "pin": "pin-4711"}}
    run = session.resume(run, approved={"c2": True, "c3": False}, arguments=own, reason="Ask Max first.")
    texts = [message["content"] for message in run]
    assert texts[:2] == ["paid 5 to eve", "paid 400 to bob"], texts
    assert "Ask Max first." in texts[2], texts
    with contextlib.suppress(ToolkitError):
        raise AssertionError(session.resume(Run.from_json(data), approved=True, arguments=own))
    assert payments.read_text() == "ann 5 eve pin-4711;ann 400 bob pin-4711;"


if len(sys.argv) == 1:
    for part in ("ask", "decide"):
        subprocess.run([sys.executable, __file__, part, str(folder)], check=True, timeout=120)
else:
    {"ask": ask, "decide": decide}[sys.argv[1]]()
