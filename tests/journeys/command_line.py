"""A file of tools becomes a server by one command; two clients use it, and a mistake is explained."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from ahvn_tools import Toolkit

TOOLS = '''
import os

from ahvn_tools import Toolkit, ToolError

print("loading")  # stdout belongs to the protocol; this must not disturb it
kit = Toolkit("notes", state={"user": os.environ["NOTES_USER"]}).bind("user")


@kit.tool
def find(query: str, user: str) -> str:
    """Find a note."""
    return f"{user} on {query}"


@kit.tool(audience="owner")
def write(text: str, user: str) -> str:
    """Write a note."""
    raise ToolError(f"{user} has no pen")
'''

folder = Path(tempfile.mkdtemp())
(folder / "tools.py").write_text(TOOLS)
command = [sys.executable, "-m", "ahvn_tools", "serve"]


def client(*options: str, user: str) -> Toolkit:
    """Start the server as a client does, and use its tools in a toolkit of our own."""
    kit = Toolkit(user)
    return kit.add_mcp([*command, str(folder / "tools.py"), *options], name="notes", env={"NOTES_USER": user})


ann, bob = client(user="ann"), client("--audience", "owner", user="bob")
try:
    assert [tool.name for tool in ann] == ["find"]
    assert [tool.name for tool in bob] == ["find", "write"]
    assert ann.call("find", {"query": "tea"}) == "ann on tea"
    assert bob.exec("write", {"text": "tea"}).error.message.endswith("bob has no pen")
    assert "user" not in str(bob.to("openai"))
finally:
    ann.remove_mcp("notes")
    bob.remove_mcp("notes")

wrong = subprocess.run([*command, "nowhere.py"], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
assert wrong.returncode == 1
assert "nowhere.py" in wrong.stderr
assert "Traceback" not in wrong.stderr
