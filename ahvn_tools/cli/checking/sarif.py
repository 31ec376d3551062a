"""The report of a check as SARIF 2.1.0, which code scanning reads.

The specification is https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html; GitHub's page on its support of
SARIF lists the properties that it reads.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from urllib.parse import quote

from ahvn_tools import __version__
from ahvn_tools.cli.checking.locations import Location
from ahvn_tools.cli.checking.report import Report, get_subject
from ahvn_tools.cli.output import escape_line
from ahvn_tools.json_types import JsonObject
from ahvn_tools.lint import RULES
from ahvn_tools.schema.dialects.finding import Finding

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ROOT = "%SRCROOT%"
"""By convention, the root of the repository: paths are relative to it."""


def to_sarif(report: Report) -> JsonObject:
    """Return the report as a SARIF log with one run. File paths are relative to the current folder."""
    rules = sorted({finding.rule for finding in report.findings})
    seen: Counter[str] = Counter()
    results = []
    for finding in report.findings:
        digest = _hash(finding)
        seen[digest] += 1
        results.append(_to_result(report, finding, rules.index(finding.rule), f"{digest}:{seen[digest]}"))
    driver = {
        "name": "ahvn-tools",
        "version": __version__,
        "rules": [_to_rule(name) for name in rules],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The folder in which the check ran."}}},
        "results": results,
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _to_rule(name: str) -> JsonObject:
    summary = RULES[name].summary
    text = f"{summary[0].upper()}{summary[1:]}."
    return {
        "id": name,
        "shortDescription": {"text": text},
        "fullDescription": {"text": text},
        "defaultConfiguration": {"level": RULES[name].severity},
    }


def _to_result(report: Report, finding: Finding, rule_index: int, fingerprint: str) -> JsonObject:
    subject = f"{about}: " if (about := get_subject(finding)) else ""
    formats = f" ({', '.join(finding.formats)})" if finding.formats else ""
    result: JsonObject = {
        "ruleId": finding.rule,
        "ruleIndex": rule_index,
        "level": finding.severity,
        "message": {"text": _to_message(f"{subject}{finding.problem}{formats}. {finding.fix}")},
        "partialFingerprints": {"ahvnTools/v1": fingerprint},
    }
    location = _to_location(finding, report.locate(finding))
    return {**result, "locations": [location]} if location else result


def _to_message(text: str) -> str:
    """Return a text as a message without links: viewers make a link of `[text](address)`."""
    return escape_line(text).replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")


def _to_location(finding: Finding, location: Location | None) -> JsonObject:
    logical = {"logicalLocations": [{"name": finding.tool, "kind": "function"}]} if finding.tool else {}
    if location is None:
        return logical
    physical = {"artifactLocation": _to_artifact(location.file), "region": {"startLine": location.line}}
    return {"physicalLocation": physical, **logical}


def _to_artifact(file: Path) -> JsonObject:
    """Return the URI of a file: relative to the current folder where it is in it."""
    try:
        return {"uri": quote(file.relative_to(Path.cwd()).as_posix()), "uriBaseId": _ROOT}
    except ValueError:
        return {"uri": file.as_uri()}


def _hash(finding: Finding) -> str:
    """Return a digest that stays the same when lines move."""
    text = "\0".join([finding.rule, finding.tool or "", finding.place, finding.problem])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
