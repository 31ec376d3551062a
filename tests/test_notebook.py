"""A notebook with a real kernel: cells that run again, `tool?`, and what the objects show."""

from __future__ import annotations

import importlib.util

import pytest

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(300)]

DEFINE = """
from ahvn_tools import Toolkit, tool
kit = Toolkit("desk", state={"user": "ann-the-secret"}).bind("user")
"""
TOOL = '''
@kit.tool
def notes(topic: str, user: str) -> str:
    """Find <notes>."""
    return topic + "VERSION"
'''
SPEC = '''
@tool
def greet(name: str, tone: str = "plain") -> str:
    """Greet a person."""
    return name

greet.bind("tone", default="warm-secret");
'''
ANSWER = '{"tool_calls": [{"id": "c1", "function": {"name": "notes", "arguments": \'{"topic": "<tea>"}\'}}]}'


def run_cells(*sources: str) -> list[list[dict]]:
    """Run the cells in one kernel; return the outputs of each."""
    for module in ("nbclient", "ipykernel"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f'needs {module}: pip install -e ".[test]"')
    import nbclient
    import nbformat

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    nbclient.NotebookClient(notebook, timeout=120, startup_timeout=120, kernel_name="python3").execute()
    return [cell.outputs for cell in notebook.cells]


def html_of(outputs: list[dict]) -> str:
    [output] = outputs
    assert "\n" not in output["data"]["text/plain"]
    assert "secret" not in str(output["data"])
    return output["data"]["text/html"]


@pytest.mark.filterwarnings("default")  # the notebook's own libraries
def test_a_notebook():
    again = TOOL.replace("VERSION", " again")
    outputs = run_cells(
        DEFINE,
        TOOL,
        again,
        "print(kit.call('notes', {'topic': 'tea'}))",
        "kit",
        f"kit.run({ANSWER}, format='openai')",
        SPEC,
        "greet",
        "kit.exec('notes', {'topic': '<tea>'})",
        "print(get_ipython().object_inspect_text('greet'))",
        "await kit.acall('notes', {'topic': 'async'})",
    )
    _, _, _, called, kit, run, _, spec, result, inspected, awaited = outputs
    assert called[0]["text"] == "tea again\n"
    assert "user ← user" in html_of(kit)
    assert "notes(topic)" in html_of(run)
    assert "greet(name: str) -&gt; str" in html_of(spec)
    assert "&lt;tea&gt; again" in result[0]["data"]["text/html"]
    assert "greet(name: str) -> str" in inspected[0]["text"]
    assert "Greet a person." in inspected[0]["text"]
    assert "warm-secret" not in inspected[0]["text"]
    assert awaited[0]["data"]["text/plain"] == "'async again'"
