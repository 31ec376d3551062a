"""SARIF logs have the structure that the specification asks for, and what code scanning needs.

No package brings the schema along, so the rules are here, each after its section of SARIF 2.1.0: a log has a version
and runs (3.13), a run a tool with a driver that has a name and rules with unique ids (3.14, 3.19), a result a message
with a text (3.27.11), a level (3.27.10), and an index that leads to the rule with its id (3.27.5, 3.27.6). URIs are
relative to a base that the run declares, or absolute (3.4). GitHub wants a location in a file for every result, and
keeps results apart by their fingerprints.
"""

from __future__ import annotations

import json
import re
from urllib.parse import unquote, urlsplit

import pytest

from ahvn_tools.cli.app import main

TOOLS = '''
from ahvn_tools import tool


@tool
def find(query, Query):
    """Find [a](0) {0} note."""


@tool
def write(a, b):
    pass
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools.py").write_text(TOOLS)
    return tmp_path


def make(capsys, *arguments):
    main(["check", *arguments, "--sarif"])
    return json.loads(capsys.readouterr().out)


def check_structure(log):
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert run["tool"]["driver"]["name"] == "ahvn-tools"
    assert len({rule["id"] for rule in rules}) == len(rules)
    for rule in rules:
        assert re.fullmatch(r"[a-z-]+", rule["id"])
        assert rule["shortDescription"]["text"]
        assert rule["fullDescription"]["text"]
        assert rule["defaultConfiguration"]["level"] in {"error", "warning", "note"}
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in {"error", "warning", "note"}
        assert result["message"]["text"].strip()
        assert re.search(r"(?<!\\)\[[^\]]*(?<!\\)\]\(", result["message"]["text"]) is None
        for location in result.get("locations", ()):
            check_location(location, run)
    prints = [result["partialFingerprints"]["ahvnTools/v1"] for result in run["results"]]
    assert len(set(prints)) == len(prints)
    return run["results"]


def check_location(location, run):
    physical = location.get("physicalLocation")
    if physical is None:
        assert location["logicalLocations"][0]["name"]
        return
    artifact = physical["artifactLocation"]
    assert physical["region"]["startLine"] >= 1
    if "uriBaseId" in artifact:
        assert artifact["uriBaseId"] in run["originalUriBaseIds"]
        assert not urlsplit(artifact["uri"]).scheme
        assert not artifact["uri"].startswith("/")
    else:
        assert urlsplit(artifact["uri"]).scheme == "file"


def locations(results):
    places = [result["locations"][0]["physicalLocation"] for result in results]
    return {(place["artifactLocation"]["uri"], place["region"]["startLine"]) for place in places}


def test_a_log_has_the_structure_of_the_specification(folder, capsys):
    results = check_structure(make(capsys, "tools.py"))
    assert locations(results) == {("tools.py", 6), ("tools.py", 11)}
    assert {result["ruleId"] for result in results} >= {"missing-description", "similar-parameters", "not-strict"}


def test_a_fingerprint_stays_when_lines_move(folder, capsys):
    before = {result["partialFingerprints"]["ahvnTools/v1"] for result in check_structure(make(capsys, "tools.py"))}
    (folder / "shed.py").write_text("\n\n\n" + TOOLS)
    after = {result["partialFingerprints"]["ahvnTools/v1"] for result in check_structure(make(capsys, "shed.py"))}
    assert before == after


def test_a_path_is_escaped_and_relative_to_the_current_folder(folder, capsys, monkeypatch):
    (folder / "my tools #1").mkdir()
    (folder / "my tools #1" / "shed.py").write_text(TOOLS)
    results = check_structure(make(capsys, "my tools #1/shed.py"))
    ((uri, _), *_) = locations(results)
    assert unquote(uri) == "my tools #1/shed.py"
    assert "#" not in uri
    monkeypatch.chdir(folder / "my tools #1")
    results = check_structure(make(capsys, "../tools.py"))
    assert {uri for uri, _ in locations(results)} == {(folder / "tools.py").as_uri()}


def test_tools_in_json_and_yaml_have_the_line_of_their_name(folder, capsys):
    tools = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("one", "two")]}
    (folder / "tools.json").write_text(json.dumps(tools, indent=1))
    results = check_structure(make(capsys, "tools.json"))
    assert {line for _, line in locations(results)} == {4, 10}


def test_a_log_without_findings_is_a_log(folder, capsys):
    (folder / "shed.py").write_text(
        'from ahvn_tools import tool\n\n@tool\ndef ping() -> None:\n    """Is it there?"""\n'
    )
    assert check_structure(make(capsys, "shed.py")) == []


def test_a_log_in_a_file_leaves_the_report_on_the_terminal(folder, capsys):
    assert main(["check", "tools.py", "--sarif", "-o", "check.sarif"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert re.match(r"2 tools, \d+ formats: 0 errors, ", last)  # other tests may have registered a format
    check_structure(json.loads((folder / "check.sarif").read_text(encoding="utf-8")))
