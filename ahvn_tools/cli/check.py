"""`ahvn-tools check`: what models, providers and readers would stumble over in tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from ahvn_tools.cli.output import UsageError, print_json, print_message, to_json
from ahvn_tools.cli.output_file import write_text
from ahvn_tools.cli.sources import Flag, Names, SourceParameters, Sources, load_status, open_toolkit


def check(
    *sources: Sources,
    format: Names = None,  # noqa: A002  # the name of the option
    ignore: Names = None,
    lock: Path | None = None,
    fail_on: Literal["error", "warning", "note", "never"] = "error",
    json: Flag = False,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    force: Flag = False,
    options: SourceParameters = None,
) -> int:
    """Check tools: what each provider does with them, and what is wrong with them.

    A table says what each provider does with each tool. ok: it receives the tool unchanged. adapted: in another form,
    or without some rules, in strict exports where the provider has them. not strict: as well, and --strict has no
    effect. refused: it would refuse the tool. Findings follow, each with its place, its rule and what to do. More than
    50 findings are printed by their rules, with the first places of each; --verbose prints all.

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
    output
        Write the JSON to this file, and print the report as text.
    force
        Replace the file if there is one.
    """
    if output is not None and not json:
        raise UsageError("--output needs --json.")
    from ahvn_tools.cli.check_report import make_report, print_report

    with open_toolkit(sources, options) as kit:
        report = make_report(
            kit, list(map(str, sources)), formats=format, ignore=ignore or (), lock=lock, options=options
        )
        is_incomplete = options is not None and options.strict_load and load_status(kit, options)
    if json and output is None:
        print_json(report.to_json())
        print_message(report.summary())
    else:
        if output is not None:
            write_text(output, f"{to_json(report.to_json())}\n", replaces=force)
        print_report(report, is_verbose=options is not None and options.verbose)
    return int(report.has_failed(fail_on) or bool(is_incomplete))
