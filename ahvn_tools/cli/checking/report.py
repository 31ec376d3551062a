"""Report: the tools of some sources, what each provider does with them, and all findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ahvn_tools import definition_lock
from ahvn_tools.cli.checking.locations import Location, Locations, to_relative
from ahvn_tools.cli.export import read_lock
from ahvn_tools.cli.sources import SourceOptions
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.json_types import JsonObject
from ahvn_tools.lint.providers import Verdict, judge, list_formats, split
from ahvn_tools.lint.rules import SEVERITIES, is_severe, require_rules
from ahvn_tools.schema.dialects.finding import Finding
from ahvn_tools.toolkit import Toolkit

LOCK_RULE = "changed-since-pin"


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a check found."""

    verdicts: dict[str, dict[str, Verdict]]
    """What each provider does with a tool, by tool and format."""
    findings: list[Finding]
    """By tool, the most severe first; then those about no single tool."""
    locations: Locations = field(repr=False)

    @property
    def formats(self) -> list[str]:
        """The formats that were checked."""
        return list(next(iter(self.verdicts.values()), ()))

    @property
    def counts(self) -> Counter[str]:
        """How many findings there are of each severity."""
        return Counter(finding.severity for finding in self.findings)

    def has_failed(self, level: str) -> bool:
        """Return whether there is a finding that is at least as severe as the level."""
        return any(is_severe(finding, level) for finding in self.findings)

    def locate(self, finding: Finding) -> Location | None:
        """Return where to correct what was found."""
        return self.locations.find_finding(finding)

    def summary(self) -> str:
        """Return the last line of the report."""
        tools, counts = len(self.verdicts), self.counts
        words = ", ".join(_plural(counts[severity], severity) for severity in SEVERITIES)
        return f"{_plural(tools, 'tool')}, {_plural(len(self.formats), 'format')}: {words}."

    def to_json(self) -> JsonObject:
        """Return the report as JSON."""
        return {
            "tools": [
                {"name": name, "formats": formats, **_location_to_json(self.locations.find(name))}
                for name, formats in self.verdicts.items()
            ],
            "findings": [
                {
                    "rule": finding.rule,
                    "severity": finding.severity,
                    "tool": finding.tool,
                    "place": finding.place,
                    "problem": finding.problem,
                    "fix": finding.fix,
                    "formats": list(finding.formats),
                    **_location_to_json(self.locate(finding)),
                }
                for finding in self.findings
            ],
            "summary": {severity: self.counts[severity] for severity in SEVERITIES},
        }


def make_report(
    kit: Toolkit,
    sources: Sequence[str],
    *,
    formats: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    lock: Path | None = None,
    options: SourceOptions | None = None,
) -> Report:
    """Check a toolkit that was loaded from sources, and compare it with a lock file if there is one."""
    specs = list(kit)
    found = kit.lint(formats=formats)
    unbound = {finding.tool for finding in found if finding.rule == "unbound-parameter"}
    definitions = [spec.definition for spec in specs if spec.name not in unbound]
    names = list_formats() if formats is None else formats
    by_tool: dict[str, list[Finding]] = {}
    for finding in found:
        by_tool.setdefault(finding.tool or "", []).append(finding)
    if lock is not None:
        found += _compare_with_lock(lock, read_lock(lock, options), definitions)
    ignored = require_rules(ignore)
    found = [finding for finding in found if finding.rule not in ignored]
    order = {definition.name: number for number, definition in enumerate(definitions)}
    found.sort(key=lambda finding: (order.get(finding.tool or "", len(order)), SEVERITIES.index(finding.severity)))
    return Report(
        verdicts={
            definition.name: judge(definition, split(definition, by_tool.get(definition.name, ()), names))
            for definition in definitions
        },
        findings=found,
        locations=Locations(sources, specs, kit.load_errors),
    )


def _compare_with_lock(
    lock: Path, locked: list[ToolDefinition], definitions: list[ToolDefinition]
) -> Iterator[Finding]:
    """Yield an error for each tool that differs from the lock file."""
    changes = definition_lock.compare(locked, definitions)
    problems = {
        **dict.fromkeys(changes.added, "it is not in the lock file"),
        **dict.fromkeys(changes.removed, "it is gone"),
        **{name: "; ".join(reasons) for name, reasons in (changes.breaking | changes.compatible).items()},
    }
    for name, problem in problems.items():
        fix = f"If that is intended, pin the tools again: ahvn-tools pin … -o {lock}."
        yield Finding(
            rule=LOCK_RULE, severity="error", tool=name, place="", problem=f"it differs from {lock}: {problem}", fix=fix
        )


def get_subject(finding: Finding) -> str:
    """Return what a finding is about: the tool, and the place in it unless the tool or the problem says it, too."""
    is_said = finding.place == f"the tool {finding.tool!r}" or finding.problem.startswith(finding.place)
    place = "" if is_said else finding.place
    return ", ".join(filter(None, [finding.tool or "", place]))


def _location_to_json(location: Location | None) -> JsonObject:
    return {"file": to_relative(location.file), "line": location.line} if location is not None else {}


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
