"""The examples of the SDKs, as processes that cannot reach a provider."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

import pytest

from examples.loopback import Loopback
from tests import sealed

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

SAID = {
    "anthropic_messages": '["anthropic_messages.py"]',
    "bedrock_converse": "40 euros for the lamp",
    "external_tool": "2C",
    "gemini_generate": "{'owner': 'Ann', 'day': 'Monday', 'at': ['09:00 dentist']}",
    "langchain_tools": "4 copies of Emma in Oslo, Emma is reserved in Oslo, Ulysses is reserved in Oslo",
    "mistral_chat": "ann@example.com has 5 unread messages in inbox",
    "ollama_chat": "40 % humidity at the window",
    "openai_chat": "4 degrees Celsius in Oslo",
    "openai_responses": "Ann has 3 orders that are open",
}
SDKS = {
    "anthropic_messages": ("anthropic", "anthropic"),
    "bedrock_converse": ("bedrock", "boto3"),
    "external_tool": ("openai", "openai"),
    "gemini_generate": ("gemini", "google.genai"),
    "langchain_tools": ("langchain", "langchain_core"),
    "mistral_chat": ("mistral", "mistralai"),
    "ollama_chat": ("ollama", "ollama"),
    "openai_chat": ("openai", "openai"),
    "openai_responses": ("openai", "openai"),
}
"""The extra and the module that each example needs."""

KEYS = {
    "anthropic_messages": {"ANTHROPIC_API_KEY": "none"},
    "bedrock_converse": {
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
    },
    "gemini_generate": {"GEMINI_API_KEY": "none"},
    "mistral_chat": {"MISTRAL_API_KEY": "none"},
    "ollama_chat": {"OLLAMA_HOST": "http://ollama.test"},
    "openai_chat": {"OPENAI_API_KEY": "none"},
    "openai_responses": {"OPENAI_API_KEY": "none"},
}

each_example = pytest.mark.parametrize("example", SAID)
each_example_with_a_key = pytest.mark.parametrize("example", KEYS)


def needs_sdk(example: str) -> str:
    """Return the file of an example; skip where its SDK is not installed."""
    extra, module = SDKS[example]
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        found = None
    if found is None:
        pytest.skip(f'needs the SDK: pip install "ahvn-tools[{extra}]"')
    return str(EXAMPLES / f"{example}.py")


def test_every_example_of_an_sdk_is_run_here():
    files = [path.stem for path in EXAMPLES.glob("*.py") if "with require_sdk(" in path.read_text()]
    assert sorted(files) == sorted([*SAID, "code_mode"])  # which has test_code_mode.py


@each_example
def test_an_example_prints_the_result_of_its_tool_and_ends(example, tmp_path):
    finished = sealed.run("-W", "error", needs_sdk(example), folder=tmp_path)
    assert (finished.stdout, finished.stderr) == (f"The tool said: {SAID[example]}\n", "")
    assert finished.returncode == 0


@each_example_with_a_key
def test_an_example_calls_the_real_service_when_its_key_is_set(example, tmp_path):
    finished = sealed.run(needs_sdk(example), folder=tmp_path, **KEYS[example])
    assert finished.stderr.startswith("no connection to ")
    assert "127.0.0.1" not in finished.stderr
    assert (finished.stdout, finished.returncode) == ("", 70)


@each_example_with_a_key
def test_a_key_in_the_environment_of_the_tests_reaches_no_example(example, tmp_path, monkeypatch):
    for name, value in KEYS[example].items():
        monkeypatch.setenv(name, value)
    code = "import os; print(sorted(os.environ.keys() & {name}))".replace("{name}", str(set(KEYS[example])))
    assert sealed.run("-c", code, folder=tmp_path).stdout == "[]\n"
    assert os.environ.keys() >= KEYS[example].keys()


@pytest.mark.parametrize("host", ["203.0.113.9", "api.provider.test"])
def test_a_sealed_process_has_no_network(host, tmp_path):
    code = f"import socket; socket.create_connection(({host!r}, 443), timeout=1)"
    finished = sealed.run("-c", code, folder=tmp_path)
    assert (finished.stderr, finished.returncode) == (f"no connection to {host}", 70)


@each_example
@pytest.mark.default_cases(1)
def test_an_example_without_its_sdk_says_what_to_install(example, tmp_path):
    extra, module = SDKS[example]
    finished = sealed.run(str(EXAMPLES / f"{example}.py"), folder=tmp_path, MISSING=module)
    assert finished.stderr == f'This example needs an SDK: pip install "ahvn-tools[{extra}]"\n'
    assert finished.returncode == 1


PAGES = {
    "README.md": '["Ann\'s note 1 about tides"]',
    "docs/quickstart.md": '{"results": ["tides 1"]}',
    "docs/how-to/conversations.md": "a note on tides",
}
"""What the tool of a page's first program returns, asked for one note about tides."""


def programs(page: str) -> list[str]:
    """Return the programs of a page that need an SDK: they are marked `py`."""
    text = (EXAMPLES.parent / page).read_text(encoding="utf-8")
    return re.findall(r"^```py\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def run_program(program: str, folder: Path, **arguments: object) -> str:
    """Run a program whose clients reach a local server, whose model calls with these arguments; return its output."""
    (folder / "agent.py").write_text(program, encoding="utf-8")
    with Loopback(arguments) as server:
        finished = sealed.run(
            "agent.py",
            folder=folder,
            OPENAI_API_KEY="none",
            OPENAI_BASE_URL=f"{server.url('openai_chat')}/v1",
            ANTHROPIC_API_KEY="none",
            ANTHROPIC_BASE_URL=server.url("anthropic_messages"),
        )
    assert finished.stderr == ""
    return finished.stdout


@pytest.mark.parametrize("page", PAGES)
def test_the_first_program_of_a_page_runs_with_the_sdk(page, tmp_path):
    pytest.importorskip("openai", reason='needs the SDK: pip install "ahvn-tools[openai]"')
    arguments = {"query": "tides"} if "conversations" in page else {"query": "tides", "limit": 1}
    assert run_program(programs(page)[0], tmp_path, **arguments) == f"The tool said: {PAGES[page]}\n"


def test_the_model_of_the_quick_start_can_be_anthropics(tmp_path):
    pytest.importorskip("openai", reason='needs the SDK: pip install "ahvn-tools[openai]"')
    pytest.importorskip("anthropic", reason='needs the SDK: pip install "ahvn-tools[anthropic]"')
    with_openai, model = programs("docs/quickstart.md")
    tools = with_openai.partition("if __name__")[0]
    program = f'{tools}{model}print(kit.converse(model, "Is there anything?").text)\n'
    said = run_program(program, tmp_path, query="tides", limit=1)
    assert said == f"The tool said: {PAGES['docs/quickstart.md']}\n"
