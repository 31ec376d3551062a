"""A notebook: define a tool, try it, define it again, look at what the cells show. A real kernel runs it."""

from __future__ import annotations

import nbformat
from nbclient import NotebookClient

CELLS = [
    "from ahvn_tools import Toolkit, tool\nkit = Toolkit('desk', state={'user': 'ann@example.com'}).bind('user')",
    "@kit.tool\ndef hello(word: str, user: str) -> str:\n    'Greet <someone>.'\n    return word",
    "kit",
    "kit.call('hello', {'word': 'hi'})",
    "@kit.tool\ndef hello(word: str, user: str, loud: bool = False) -> str:\n    'Greet.'\n    return word.upper()",
    "await kit.acall('hello', {'word': 'hi'})",
    "session = kit.session(user='bob@example.com'); session.exec('hello', {'word': 'hi'})",
    "calls = [{'id': 'c1', 'function': {'name': 'hello', 'arguments': '{\"word\": \"hi\"}'}}]",
    "kit.run({'tool_calls': calls}, format='openai')",
    "from fastmcp.utilities.types import Image",
    "@tool\ndef paint(color: str = 'red'):\n    return Image(data=color.encode(), format='png')",
    "paint.exec()",
    "import inspect; inspect.signature(kit['hello'])",
    "kit['hello']",
]

notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
NotebookClient(notebook, timeout=120, startup_timeout=120, kernel_name="python3").execute()
shown = [cell.outputs[0]["data"] if cell.outputs else {} for cell in notebook.cells]
assert "example.com" not in str(shown)
assert "Greet &lt;someone&gt;." in shown[2]["text/html"]
assert shown[3]["text/plain"] == "'hi'"
assert shown[5]["text/plain"] == "'HI'"
assert "HI" in shown[6]["text/html"]
assert "hello(word)" in shown[8]["text/html"]
assert '<img alt="image" src="data:image/png;base64,cmVk">' in shown[11]["text/html"]
assert shown[12]["text/plain"] == "<Signature (word: str, loud: bool = False) -> str>"
assert "user ← user" in shown[13]["text/html"]
