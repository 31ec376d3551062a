"""`${NAME}` in manifests: values from the environment, which count as secrets."""

from __future__ import annotations

import logging

import pytest

from ahvn_tools import Toolkit, load
from ahvn_tools.errors import SourceError
from tests.manifest.conftest import Load

SECRET = "hunter2-secret"


def test_a_variable_is_a_value_from_the_environment_or_its_default(load_text: Load) -> None:
    text = """
        sources: [notes.py]
        timeout: ${SECONDS:30}
        max_concurrency: ${MANY}
        strict: ${STRICT:false}
        tools: {find: {preset: {token: "a-${TOKEN}-${SUFFIX:z}-${EMPTY:}", limit: "${LIMIT:3}"}}}
        """
    kit = load_text(text, env={"MANY": "4", "TOKEN": "t", "LIMIT": "8"})
    assert (kit["find"].timeout, kit.max_concurrency) == (30, 4)
    assert kit.call("find", {"query": "q"}) == "q 8 a-t-z-"


def test_the_environment_of_the_process_is_the_default(load_text: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "from-process")
    assert load_text("sources: [notes.py]\ntools: {find: {preset: {token: '${A_TOKEN}'}}}").call(
        "find", {"query": "q"}
    ) == ("q 5 from-process")


def test_two_dollars_are_a_literal(load_text: Load) -> None:
    kit = load_text("sources: [notes.py]\ntools: {find: {preset: {token: '$${TOKEN} $HOME $${'}}}", env={})
    assert kit.call("find", {"query": "q"}) == "q 5 ${TOKEN} $HOME ${"


def test_code_has_no_variables(load_text: Load) -> None:
    kit = load_text(
        """
        sources:
          - code: "def a() -> str: return '${HOME}'"
          - |
            def b() -> str:
                return '${HOME}'
        """,
        env={},
    )
    assert (kit.call("a", {}), kit.call("b", {})) == ("${HOME}", "${HOME}")


def test_all_missing_variables_are_named_with_their_lines(load_text: Load) -> None:
    text = "sources: [notes.py]\ntimeout: ${ONE}\ntools:\n  find:\n    preset: {token: '${TWO}${THREE}'}\n"
    with pytest.raises(SourceError) as caught:
        load_text(text, env={})
    assert [line.split(". ")[0] for line in str(caught.value).splitlines()] == [
        "kit.yaml:2: timeout: the environment variable 'ONE' is not set",
        "kit.yaml:5: tools.find.preset.token: the environment variable 'TWO' is not set",
        "kit.yaml:5: tools.find.preset.token: the environment variable 'THREE' is not set",
    ]


def leaks(kit: Toolkit) -> str:
    """Return all that a toolkit shows of itself."""
    shown = [repr(kit), str(kit.to("openai")), str(kit.to("anthropic")), kit.to_prompt(), str(kit.state_dict())]
    shown += [repr(spec) + str(spec.definition) + str(dict(spec.binds)) + repr(spec.compiled) for spec in kit]
    shown += [str(kit.check()), str(kit.servers), str(kit.duplicates), kit._repr_html_()]
    shown += [repr(kit._view.store.bindings)]
    return "\n".join(shown)


@pytest.mark.parametrize(
    "text",
    [
        "tools: {'*': {preset: {token: 'x ${TOKEN}'}}}",
        "tools: {find: {preset: {token: '${TOKEN}'}}}",
        "binds: {token: {key: auth.token, default: '${TOKEN}'}}",
    ],
)
def test_a_value_from_a_variable_is_secret(text: str, load_text: Load, caplog: pytest.LogCaptureFixture) -> None:
    kit = load_text(f"sources: [notes.py]\n{text}\nmiddleware: [log]", env={"TOKEN": SECRET})
    with caplog.at_level(logging.DEBUG):
        shown = leaks(kit)
        result = kit.exec("find", {"query": "q"})
        kit.exec("find", {"query": 5, "token": "x"})
    assert SECRET in result.value
    assert SECRET not in shown
    binding = kit["find"].compiled.bindings["token"]
    assert binding.is_secret
    assert SECRET not in repr(binding)
    assert SECRET not in "".join(
        record.getMessage() for record in caplog.records if "ahvn_tools.calls" not in record.name
    )


def test_a_preset_is_secret_at_any_depth(load_text: Load) -> None:
    kit = load_text(
        """
        sources:
          - code: "def send(options: dict) -> str: return options['headers']['auth'][0]"
        tools: {send: {preset: {options: {headers: {auth: ["${TOKEN}"]}}}}}
        """,
        env={"TOKEN": SECRET},
    )
    assert kit.call("send", {}) == SECRET
    assert kit["send"].compiled.bindings["options"].is_secret
    assert SECRET not in leaks(kit)


def test_an_error_of_a_source_does_not_show_a_variable(load_text: Load) -> None:
    """Also where other code quotes it."""
    with pytest.raises(SourceError) as caught:
        load_text("sources: [{source: 'folder/${TOKEN}.py'}, {server: 'program-${TOKEN} now'}]", env={"TOKEN": SECRET})
    assert SECRET not in str(caught.value)
    assert "<TOKEN>" in str(caught.value)
    chain: BaseException | None = caught.value
    while chain is not None:
        assert SECRET not in str(chain) or chain.__suppress_context__
        chain = chain.__cause__


def test_the_result_of_a_failing_tool_does_not_show_a_variable(load_text: Load) -> None:
    kit = load_text(
        """
        mask_errors: false
        sources:
          - code: "def login(token: str) -> str: raise ValueError('bad token ' + token)"
        tools: {login: {preset: {token: "${TOKEN}"}}}
        """,
        env={"TOKEN": SECRET},
    )
    assert SECRET not in str(kit.exec("login", {}))


def test_load_without_manifest_ignores_dollars() -> None:
    assert load("def price() -> str:\n    return '${AMOUNT}'").call("price", {}) == "${AMOUNT}"
