"""Rules together with all else that a call may meet: what ran is what a model of ten lines says."""

from __future__ import annotations

import asyncio
import fnmatch
import json
import random
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from ahvn_tools import ApprovalRules, ToolCall, Toolkit
from ahvn_tools.middleware import cache, keep_large, record

NAMES = ["a", "b1", "b2", "c"]
TEXTS = ["x", "xy", "zy", "q"]
RULES = ["a", "b*", "*", "c", 'a(text: "x*")', '*(text: "*y")', 'b1(text: "xy")']
DECISIONS = ["allow", "ask", "deny"]
BY_MODE = {"allow": "allow", "ask": "ask", "accept_edits": "ask", "read_only": "deny"}


def expected(rules: dict[str, Any], name: str, text: str) -> str:
    """Return what happens to a call of a tool without annotations."""
    for decision in reversed(DECISIONS):
        for rule in rules[decision]:
            tool, _, condition = rule.partition("(")
            pattern = json.loads(condition[:-1].partition(":")[2]) if condition else "*"
            if fnmatch.fnmatchcase(name, tool) and fnmatch.fnmatchcase(text, pattern):
                return decision
    return BY_MODE[rules["mode"]]


def choose_rules(choose: random.Random) -> dict[str, Any]:
    lists = {decision: choose.choices(RULES, k=choose.choice((0, 0, 1, 2))) for decision in DECISIONS}
    return {"mode": choose.choice(["allow", "allow", "ask", "accept_edits", "read_only"]), **lists}


def make_tool(name: str, ran: list[str], choose: random.Random) -> Any:
    length = choose.choice((1, 2_000))  # the long one is kept

    def sync_tool(text: str) -> str:
        ran.append(name)
        return text * length

    async def async_tool(text: str) -> str:
        return sync_tool(text)

    function = choose.choice((sync_tool, async_tool))
    function.__name__ = name
    return function


def call(view: Toolkit, way: str, name: str, text: str) -> None:
    arguments = {"text": text}
    answer = [ToolCall(id="c1", name=name, arguments=arguments)]
    match way:
        case "exec":
            view.exec(name, arguments)
        case "aexec":
            asyncio.run(view.aexec(name, arguments))
        case "run":
            view.run(answer)
        case "arun":
            asyncio.run(view.arun(answer))
        case "stream":
            list(view.stream(name, arguments))
        case "converse":
            view.converse(lambda messages, tools: answer if len(messages) == 1 else [], "Hi", max_turns=1)
        case "background":
            asyncio.run(start(view, name, arguments))
        case "program":
            view.exec("run_code", {"code": f"await {name}(text={text!r})"})
        case "served":
            asyncio.run(call_served(view, name, arguments))


async def start(view: Toolkit, name: str, arguments: dict[str, Any]) -> None:
    await view.await_(view.start(name, arguments))


async def call_served(view: Toolkit, name: str, arguments: dict[str, Any]) -> None:
    async with Client(view.to_fastmcp_server()) as client:
        await client.call_tool(name, arguments, raise_on_error=False)


WAYS = ["exec", "aexec", "run", "arun", "stream", "converse", "background", "served", "program"]


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(4, 40))]
)
def test_what_runs_is_what_the_rules_say(seed: int, tmp_path: Path):
    choose = random.Random(seed)
    for number in range(15):
        ran: list[str] = []
        layers = [cache(tools=NAMES), keep_large(1_000), record(tmp_path / f"{number}.jsonl")]
        inner_rules, outer_rules = choose_rules(choose), choose.choice([None, choose_rules(choose)])
        middleware = choose.sample(layers, choose.choice((0, 0, 1, 2)))
        kit = Toolkit("inner", rules=ApprovalRules(**inner_rules), middleware=middleware)
        is_external, requires_approval = choose.random() < 0.3, choose.random() < 0.3
        for name in NAMES:
            tool, shared = make_tool(name, ran, choose), {"exclusive": choose.random() < 0.2}
            if choose.random() < 0.2:
                shared["timeout"] = 600
            if name == "b2" and is_external:
                kit.tool(external=True)(tool)
            else:
                kit.add(tool, requires_approval=name == "c" and requires_approval, **shared)
        if outer_rules is not None:
            kit = Toolkit("outer", rules=ApprovalRules(**outer_rules)).add(kit)
        way = choose.choice(WAYS)
        if way == "program":
            pytest.importorskip("pydantic_monty")
            kit.add_code_mode()
        view = kit.session() if choose.random() < 0.5 else kit
        view = view.select() if choose.random() < 0.3 else view
        name, text = choose.choice(NAMES), choose.choice(TEXTS)
        decisions = [expected(rules, name, text) for rules in (inner_rules, outer_rules) if rules is not None]
        if name == "c" and requires_approval:
            decisions.append("ask")
        decision = max(decisions, key=DECISIONS.index)
        described = (number, way, name, text, inner_rules, outer_rules, middleware)
        assert view.explain(name, {"text": text}).decision == decision, described
        call(view, way, name, text)
        assert ran == ([name] if decision == "allow" and not (name == "b2" and is_external) else []), described
