"""The sources of a command: the options that all such commands share, and the toolkit that the sources are loaded into.

A command takes `Sources` (several) or `Source` and `MoreSources`, and `LoadingOptions`, and uses the toolkit in
`with open_toolkit(sources, options) as kit`.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from ahvn_tools.cli.garbage import end_start
from ahvn_tools.cli.output import CommandError, UsageError, print_message, print_traceback
from ahvn_tools.errors import SkippedOperationError, near_misses
from ahvn_tools.mcp.server.standard_streams import redirect_descriptor

if TYPE_CHECKING:  # the command line is parsed, and completed, without pydantic
    from ahvn_tools.definition import ToolDefinition
    from ahvn_tools.spec import ToolSpec
    from ahvn_tools.toolkit import Toolkit

Names = Annotated[list[str] | None, Parameter(negative="")]
"""An option that can be repeated."""

Flag = Annotated[bool, Parameter(negative="")]
"""An option without a value, and without a `--no-…`."""

Source = Annotated[str | Path, Parameter(name="SOURCE")]
"""The one source of a command that has more positional arguments: `show SOURCE TOOL`.

It is a str; with Path in the type, shells complete the names of files.
"""

Sources = Source
"""For `*sources`: the sources of a command that has no other positional argument. At least one is required."""

MoreSources = Annotated[list[str | Path] | None, Parameter(name="--source", negative="")]
"""The option `--source` of a command that takes one positional SOURCE: more sources."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """How sources are loaded, and which of their tools are used, by every command."""

    profile: str | None = None
    """The profile of manifests to use, such as dev or prod."""
    trust: Names = None
    """Trust only these files, modules, programs, variables, servers and features. Can be repeated."""
    root: Names = None
    """A folder that the built-in tools may use: SOURCE is builtins or a manifest. Can be repeated."""
    tag: Names = None
    """Use the tools with this tag. Can be repeated."""
    include: Names = None
    """Use the tools whose names match this pattern, such as 'get_*'. Can be repeated."""
    exclude: Names = None
    """Use no tools whose names match this pattern. Can be repeated."""
    verbose: Flag = False
    """Print the tracebacks of errors."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LoadingOptions(SourceOptions):
    """What all commands but `serve` have in addition."""

    audience: str | None = None
    """Use the tools for this audience, and those for everyone. Without it: all; for install, those for everyone."""
    group: Names = None
    """Use the tools of this group, and activate it. Can be repeated."""
    strict_load: Flag = False
    """Fail if an operation of an OpenAPI document cannot be a tool. Without it, such operations are left out."""


SourceParameters = Annotated[LoadingOptions | None, Parameter(name="*")]
"""The annotation for the parameter `options: SourceParameters = None` of a command."""


@contextlib.contextmanager
def open_toolkit(
    sources: Sequence[Any],
    options: LoadingOptions | None = None,
    *,
    prepare: Callable[[Toolkit], None] = lambda _kit: None,
) -> Generator[Toolkit]:
    """Load sources into one toolkit, yield the part of it that the options select, and close its MCP servers.

    `prepare` is called with the whole toolkit before the selection. What the sources print while they are loaded goes
    to stderr. Files that were skipped are reported there, and remain in `load_errors` of the toolkit. Raises UsageError
    without a source and for an option that matches no tool, SourceError for a source that cannot be loaded.
    """
    options = options or LoadingOptions()
    if not sources:
        raise UsageError("A SOURCE is missing: a Python file, a folder, a manifest, an MCP server, …")
    kit = None
    try:
        kit = _load(sources, options)
        prepare(kit)
        yield select_tools(kit, options)
    except Exception as error:
        if options.verbose:
            print_traceback(error)
        raise
    finally:
        if kit is not None:
            for server in kit.servers.values():
                server.close()


def _load(sources: Sequence[Any], options: LoadingOptions) -> Toolkit:
    from ahvn_tools.cli.output import log_to_stderr
    from ahvn_tools.manifest import load

    end_start()
    with stdout_to_stderr(), log_to_stderr(tracebacks=options.verbose):
        return load(
            *sources, profile=options.profile, audience=options.audience, trust=options.trust, roots=options.root
        )


def load_status(kit: Toolkit, options: LoadingOptions | None) -> int:
    """Return the exit status of a command that is about all tools: 1 if a file or a server was skipped.

    How many operations of OpenAPI documents were skipped is said on stderr; they count with `--strict-load`.
    """
    operations = sum(isinstance(error, SkippedOperationError) for error in kit.load_errors)
    others = len(kit.load_errors) - operations
    if operations:
        were = "operation was" if operations == 1 else "operations were"
        print_message(f"{operations} {were} skipped. --strict-load makes this an error.")
    return int(bool(others or (operations and (options or LoadingOptions()).strict_load)))


def require_complete(kit: Toolkit, options: LoadingOptions | None) -> None:
    """Raise CommandError if a file or a server was skipped, or with `--strict-load` an operation of a document."""
    if load_status(kit, options):
        raise CommandError("Not all tools of the sources are known: correct what was skipped, or leave it out.")


def find_tool(kit: Toolkit, name: str) -> ToolSpec:
    """Return a tool of a toolkit. Raises UsageError with similar names for an unknown one."""
    for spec in kit:
        if spec.name == name:
            return spec
    raise UsageError(f"There is no tool {name!r}. {near_misses(name, [spec.name for spec in kit])}")


def select_tools(kit: Toolkit, options: LoadingOptions) -> Toolkit:
    """Return the tools that the options select; all of them, of inactive groups too, without such an option."""
    _require_matches(kit, options)
    selection: dict[str, Any] = {}
    if options.tag:
        selection["tags"] = options.tag
    if options.group:
        kit = kit.session(audience=None).activate(*options.group)
        selection["groups"] = options.group
    if options.include or options.exclude:
        selection["where"] = to_name_condition(options)
    return kit.select(inactive=True, **selection) if selection else kit


def _require_matches(kit: Toolkit, options: LoadingOptions) -> None:
    """Raise UsageError for a group, a tag or a pattern that matches no tool."""
    names = [spec.name for spec in kit]
    for option, patterns in (("include", options.include), ("exclude", options.exclude)):
        for pattern in patterns or ():
            if not any(fnmatchcase(name, pattern) for name in names):
                raise UsageError(f"--{option} {pattern!r} matches no tool. {near_misses(pattern, names)}")
    _require_known("group", options.group, lambda: kit.groups)
    _require_known("tag", options.tag, lambda: {tag for spec in kit for tag in spec.definition.tags})


def _require_known(option: str, values: Iterable[str] | None, known: Callable[[], Iterable[str]]) -> None:
    for value in values or ():
        if value not in (names := sorted(known())):
            raise UsageError(f"--{option} {value!r} matches no tool. {near_misses(value, names)}")


def to_name_condition(options: LoadingOptions) -> Callable[[ToolDefinition], bool]:
    """Return whether `--include` and `--exclude` select a tool, as a function of its definition."""
    include, exclude = options.include or ["*"], options.exclude or ()

    def matches(definition: ToolDefinition) -> bool:
        name = definition.name
        return any(fnmatchcase(name, pattern) for pattern in include) and not any(
            fnmatchcase(name, pattern) for pattern in exclude
        )

    return matches


@contextlib.contextmanager
def stdout_to_stderr() -> Generator[None]:
    """Write to stderr what code and its child processes print: stdout is for the output of the command."""
    sys.stdout.flush()
    with contextlib.ExitStack() as stack:
        stack.enter_context(redirect_descriptor(1, to=2))
        stack.callback(sys.stdout.flush)  # what code writes to the stream that it knows from before
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        yield
