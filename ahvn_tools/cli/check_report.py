"""CheckReport: the tools of some sources, what each provider does with them, and all findings."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ahvn_tools import definition_lock
from ahvn_tools.cli.export import read_lock
from ahvn_tools.cli.output import escape_line, is_terminal, plural, print_table, print_text, print_words
from ahvn_tools.cli.sources import LoadingOptions
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import SourceError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.lint import SEVERITIES, Verdict, is_severe, judge, list_formats, require_rules, split
from ahvn_tools.schema.dialects.finding import Finding
from ahvn_tools.skills import SKILL_FILE
from ahvn_tools.spec import ToolSpec
from ahvn_tools.toolkit import Toolkit

_DEFINITION_SUFFIXES = {".json", ".jsonl", ".yaml", ".yml"}
_MAX_BYTES = 50_000_000
_NAMED = re.compile(r"""\b(?:name|operationId)["']?\s*:\s*(?P<quote>["']?)(?P<name>[^"'{}\[\],#\s]+)(?P=quote)""")
"""The name of a tool, or of anything else, in JSON and YAML."""
_PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True, kw_only=True)
class Location:
    """A line of a file."""

    file: Path
    line: int = 1

    def __str__(self) -> str:
        return f"{to_relative(self.file)}:{self.line}"


def to_relative(file: Path) -> str:
    """Return a path relative to the current folder, if it is in it, with slashes."""
    try:
        return file.relative_to(Path.cwd()).as_posix()
    except ValueError:
        return file.as_posix()


class Locations:
    """Finds the locations of the tools that some sources define."""

    def __init__(self, sources: Sequence[str], specs: Iterable[ToolSpec], errors: Iterable[SourceError] = ()) -> None:
        """Find definitions that are no functions in those sources that are JSON or YAML files, or folders of them."""
        self._specs = {spec.name: spec for spec in specs}
        self._errors = {str(error): _locate_error(error) for error in errors}
        self._files = [file for source in sources for file in _iter_definition_files(source)]
        self._sources = [file for source in sources if (file := _to_file(source)) is not None]

    @functools.cache  # noqa: B019  # the object lives as long as its command
    def find(self, tool: str) -> Location | None:
        """Return where a tool is defined; None if that is unknown, as of a tool of a server."""
        spec = self._specs.get(tool)
        if spec is not None and (location := _locate_function(spec)) is not None:
            return location
        found = next((file for file in self._files if tool in _index_names(file)), None)
        return None if found is None else Location(file=found, line=_index_names(found)[tool])

    def find_finding(self, finding: Finding) -> Location | None:
        """Return where to correct what was found: at the tool, in the file that it names, else in the only source."""
        if finding.tool is not None and (location := self.find(finding.tool)) is not None:
            return location
        if finding.problem in self._errors:
            return self._errors[finding.problem]
        if (location := _locate_place(finding)) is not None:
            return location
        return Location(file=self._sources[0]) if len(self._sources) == 1 else None


def _locate_place(finding: Finding) -> Location | None:
    """Return the line of a file that is the place of a finding about a skill."""
    file, _, line = finding.place.partition(", line ")
    if finding.tool is not None or not file.endswith(SKILL_FILE) or not Path(file).is_file():
        return None
    return Location(file=Path(file).resolve(), line=int(line) if line.isdecimal() else 1)


def _locate_error(error: SourceError) -> Location | None:
    """Return where a source is wrong; None if the error does not say."""
    if error.file is None or not Path(error.file).is_file():
        return None
    return Location(file=Path(error.file).resolve(), line=error.line or 1)


def _to_file(source: str) -> Path | None:
    """Return the file of a source such as `tools.py:kit`, `openapi:api.yaml`; None for any other source."""
    text = source.removeprefix("openapi:").removeprefix("mcp:")
    for name in (text, text.rpartition(":")[0]):
        with contextlib.suppress(OSError, ValueError):
            if name and Path(name).is_file():
                return Path(name).resolve()
    return None


def _iter_definition_files(source: str) -> list[Path]:
    file = _to_file(source)
    if file is not None:
        return [file] if file.suffix in _DEFINITION_SUFFIXES else []
    folder = Path(source)
    if "\n" in source or not folder.is_dir():
        return []
    return sorted(path.resolve() for path in folder.rglob("*") if path.suffix in _DEFINITION_SUFFIXES)


def _locate_function(spec: ToolSpec) -> Location | None:
    """Return the line of `def`, without the decorators; None for a function of this package or without a file."""
    try:
        function = inspect.unwrap(getattr(spec.function, "func", spec.function))
        file = Path(inspect.getsourcefile(function) or "")
        lines, first = inspect.getsourcelines(function)
    except (TypeError, OSError, ValueError):
        return None
    if not file.is_file() or file.resolve().is_relative_to(_PACKAGE):
        return None
    offset = next((index for index, line in enumerate(lines) if line.lstrip().startswith(("def ", "async def "))), 0)
    return Location(file=file.resolve(), line=first + offset)


@functools.lru_cache(maxsize=256)
def _index_names(file: Path) -> dict[str, int]:
    """Return the first lines on which a JSON or YAML file gives something a name."""
    lines: dict[str, int] = {}
    for number, line in enumerate(_read_lines(file), 1):
        for match in _NAMED.finditer(line):
            lines.setdefault(match["name"], number)
    return lines


def _read_lines(file: Path) -> list[str]:
    try:
        if file.stat().st_size > _MAX_BYTES:
            return []
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


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


def print_report(report: CheckReport, *, is_verbose: bool = False) -> None:
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


def _print_findings(report: CheckReport, findings: Iterable[Finding]) -> None:
    for finding in findings:
        print_words(*_to_words(report, finding), styles=_STYLES)
        print_text(f"    {escape_line(finding.fix)}")


def _print_by_rule(report: CheckReport) -> None:
    by_rule: dict[tuple[str, str], list[Finding]] = {}
    for finding in report.findings:
        by_rule.setdefault((finding.severity, finding.rule), []).append(finding)
    for (severity, rule), findings in sorted(by_rule.items(), key=lambda item: SEVERITIES.index(item[0][0])):
        print_words(severity, f": {rule}: {len(findings):,} findings", styles=_STYLES)
        _print_findings(report, findings[:_SHOWN_OF_RULE])
        if (more := len(findings) - _SHOWN_OF_RULE) > 0:
            print_text(f"    … and {more:,} more: --verbose prints all, --ignore {rule} none")
        print_text("")


def _print_verdicts(report: CheckReport) -> None:
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


def _fits(report: CheckReport) -> bool:
    """Return whether the table is no wider than the terminal."""
    columns = ["tool", *report.formats]
    rows = [columns, *([name, *formats.values()] for name, formats in report.verdicts.items())]
    widths = [max(len(row[index]) for row in rows) + _COLUMN_GAP for index in range(len(columns))]
    return sum(widths) <= shutil.get_terminal_size().columns


def _to_words(report: CheckReport, finding: Finding) -> Iterator[str]:
    """Yield a finding as compilers write it: `tools.py:9: error: find, query: the problem [rule] (formats)`."""
    location = report.locations.find_finding(finding)
    subject = get_subject(finding)
    yield f"{location}: " if location is not None else ""
    yield finding.severity
    yield f": {subject}: " if subject else ": "
    yield f"{finding.problem} [{finding.rule}]"
    if finding.formats:
        names = "all formats" if list(finding.formats) == report.formats else ", ".join(finding.formats)
        yield f" ({names})"


LOCK_RULE = "changed-since-pin"


@dataclass(frozen=True, kw_only=True)
class CheckReport:
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

    def summary(self) -> str:
        """Return the last line of the report."""
        tools, counts = len(self.verdicts), self.counts
        words = ", ".join(plural(counts[severity], severity) for severity in SEVERITIES)
        return f"{plural(tools, 'tool')}, {plural(len(self.formats), 'format')}: {words}."

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
                    **_location_to_json(self.locations.find_finding(finding)),
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
    options: LoadingOptions | None = None,
) -> CheckReport:
    """Check a toolkit that was loaded from sources, and compare it with a lock file if there is one."""
    specs = list(kit)
    found = kit.check(formats=formats)
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
    return CheckReport(
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
    """Return what a finding is about: the tool, and the place in it unless the problem or its location says it, too."""
    is_said = finding.problem.startswith(finding.place) or _locate_place(finding) is not None
    place = "" if is_said else finding.place
    return ", ".join(filter(None, [finding.tool or "", place]))


def _location_to_json(location: Location | None) -> JsonObject:
    return {"file": to_relative(location.file), "line": location.line} if location is not None else {}
