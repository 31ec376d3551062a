"""`ahvn-tools check`: what models, providers and readers would stumble over in tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from ahvn_tools.cli.output import UsageError, print_json, print_message, to_json
from ahvn_tools.cli.output_file import write_text
from ahvn_tools.cli.sources import Flag, Names, SourceParameters, Sources, load_status, open_toolkit

if TYPE_CHECKING:
    from ahvn_tools.cli.check_report import Report


def check(
    *sources: Sources,
    format: Names = None,  # noqa: A002  # the name of the option
    ignore: Names = None,
    lock: Path | None = None,
    fail_on: Literal["error", "warning", "note", "never"] = "error",
    json: Flag = False,
    sarif: Flag = False,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    force: Flag = False,
    options: SourceParameters = None,
) -> int:
    """Check tools: what each provider does with them, and what is wrong with them.

    A table says what each provider does with each tool. ok: it receives the tool unchanged. adapted: in another form.
    not strict: as well, and --strict has no effect. refused: it would refuse the tool. Findings follow, each with its
    place, its rule and what to do. More than 50 findings are printed by their rules, with the first places of each;
    --verbose prints all.

    The exit status is 1 if there is a finding of the severity --fail-on, or a more severe one.

    Parameters
    ----------
    sources
        Python files, modules, folders, manifests, MCP servers, OpenAPI documents, files with tools as MCP lists them.
    format
        Check for this provider's format only. Can be repeated.
    ignore
        Leave out the findings of this rule. Can be repeated.
    lock
        A file that `ahvn-tools pin` wrote: each tool that differs from it is an error.
    fail_on
        The least severe finding that makes the check fail.
    json
        Print the report as JSON.
    sarif
        Print the findings as SARIF 2.1.0, for code scanning.
    output
        Write the JSON or SARIF to this file, and print the report as text.
    force
        Replace the file if there is one.
    """
    if json and sarif:
        raise UsageError("--json and --sarif exclude each other.")
    if output is not None and not (json or sarif):
        raise UsageError("--output needs --json or --sarif.")
    from ahvn_tools.cli.check_report import make_report

    with open_toolkit(sources, options) as kit:
        report = make_report(
            kit, list(map(str, sources)), formats=format, ignore=ignore or (), lock=lock, options=options
        )
        is_incomplete = options is not None and options.strict_load and load_status(kit, options)
    is_verbose = options is not None and options.verbose
    _write(report, is_json=json, is_sarif=sarif, output=output, replaces=force, is_verbose=is_verbose)
    return int(report.has_failed(fail_on) or bool(is_incomplete))


def _write(
    report: Report, *, is_json: bool, is_sarif: bool, output: Path | None, replaces: bool, is_verbose: bool
) -> None:
    from ahvn_tools.cli.check_report import print_report, to_sarif

    if not (is_json or is_sarif):
        print_report(report, is_verbose=is_verbose)
        return
    value = to_sarif(report) if is_sarif else report.to_json()
    if output is None:
        print_json(value)
        print_message(report.summary())
        return
    write_text(output, f"{to_json(value)}\n", replaces=replaces)
    print_report(report, is_verbose=is_verbose)
