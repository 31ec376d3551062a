"""The report of a check as text: the table of tools and providers, then the findings, then a summary."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from typing import Final

from ahvn_tools.cli.checking.report import Report, get_subject
from ahvn_tools.cli.output import escape_line, is_terminal, print_table, print_text, print_words
from ahvn_tools.lint.rules import SEVERITIES
from ahvn_tools.schema.dialects.finding import Finding

_COLUMN_GAP = 2
_MAX_SINGLE_FINDINGS: Final = 50
"""More findings than this are printed by their rules."""
_SHOWN_OF_RULE: Final = 3
_STYLES: Final = {
    "error": "bold red",
    "warning": "yellow",
    "note": "cyan",
    "ok": "green",
    "adapted": "cyan",
    "not strict": "yellow",
    "refused": "bold red",
}
"""The colors of the words for severities and verdicts."""


def print_report(report: Report, *, is_verbose: bool = False) -> None:
    """Print the report to stdout; many findings by their rules, with the first of each, unless it is verbose."""
    if report.verdicts:
        _print_verdicts(report)
    if is_verbose or len(report.findings) <= _MAX_SINGLE_FINDINGS:
        _print_findings(report, report.findings)
    else:
        _print_by_rule(report)
    if report.findings:
        print_text("")
    print_text(report.summary())


def _print_findings(report: Report, findings: Iterable[Finding]) -> None:
    for finding in findings:
        print_words(*_to_words(report, finding), styles=_STYLES)
        print_text(f"    {escape_line(finding.fix)}")


def _print_by_rule(report: Report) -> None:
    by_rule: dict[tuple[str, str], list[Finding]] = {}
    for finding in report.findings:
        by_rule.setdefault((finding.severity, finding.rule), []).append(finding)
    for (severity, rule), findings in sorted(by_rule.items(), key=lambda item: SEVERITIES.index(item[0][0])):
        print_words(severity, f": {rule}: {len(findings):,} findings", styles=_STYLES)
        _print_findings(report, findings[:_SHOWN_OF_RULE])
        if (more := len(findings) - _SHOWN_OF_RULE) > 0:
            print_text(f"    … and {more:,} more: --verbose prints all, --ignore {rule} none")
        print_text("")


def _print_verdicts(report: Report) -> None:
    rows = [[name, *formats.values()] for name, formats in report.verdicts.items()]
    if not is_terminal() or _fits(report):
        print_table(["tool", *report.formats], rows, styles=_STYLES)
        print_text("")
        return
    for name, formats in report.verdicts.items():
        words = {word: [one for one, verdict in formats.items() if verdict == word] for word in formats.values()}
        print_text(escape_line(name))
        for word, ones in words.items():
            print_words("    ", word, f": {', '.join(ones)}", styles=_STYLES)
    print_text("")


def _fits(report: Report) -> bool:
    """Return whether the table is no wider than the terminal."""
    columns = ["tool", *report.formats]
    rows = [columns, *([name, *formats.values()] for name, formats in report.verdicts.items())]
    widths = [max(len(row[index]) for row in rows) + _COLUMN_GAP for index in range(len(columns))]
    return sum(widths) <= shutil.get_terminal_size().columns


def _to_words(report: Report, finding: Finding) -> Iterator[str]:
    """Yield a finding as compilers write it: `tools.py:9: error: find, query: the problem [rule] (formats)`."""
    location = report.locate(finding)
    subject = get_subject(finding)
    yield f"{location}: " if location is not None else ""
    yield finding.severity
    yield f": {subject}: " if subject else ": "
    yield f"{finding.problem} [{finding.rule}]"
    if finding.formats:
        names = "all formats" if list(finding.formats) == report.formats else ", ".join(finding.formats)
        yield f" ({names})"
