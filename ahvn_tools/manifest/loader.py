"""Loader: makes a toolkit of sources."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from ahvn_tools.errors import SourceError, ToolCallError, ToolSpecError, unknown_options
from ahvn_tools.loading.contents import Contents, add_load_errors, add_skills, adopt_servers, close_servers, skipping
from ahvn_tools.loading.kinds import classify, prepare_source
from ahvn_tools.loading.read_options import ReadOptions
from ahvn_tools.redaction.credentials import mask_credentials
from ahvn_tools.roots import Roots, to_roots
from ahvn_tools.sources.budget import Budget
from ahvn_tools.toolkit import Toolkit
from ahvn_tools.trust import Trust

if TYPE_CHECKING:
    from concurrent.futures import Executor


class LoadOptions(TypedDict, total=False):
    """The options of `load` and `aload`. All are optional."""

    name: str | None
    """The name of the toolkit."""
    profile: str | None
    """The profile of manifests, by default the one that the environment variable AHVN_TOOLS_PROFILE names."""
    audience: str | None
    """Load the toolkit of one audience, with what manifests say for it."""
    trust: Iterable[str | os.PathLike[str]] | None
    """What the sources may run, start, read, write, send and use, as docs/reference/trust.md says. By default it is all
    that they name, because the caller names the sources. `ToolSpec.from_dict` trusts nothing by default: its data was
    stored or sent."""
    roots: Roots | None
    """The folders that the built-in tools may use, and of the roots of manifests only what is in these."""
    env: Mapping[str, str] | None
    """The environment variables that manifests refer to, instead of those of this process."""
    executor: Executor | None
    """Where the bodies of tools with `isolation="executor"` run, as of a Toolkit."""
    allow_missing: bool
    """Whether a `Path` that does not exist, and a folder without tools, are no errors."""
    max_values: int | None
    """How many values may be read and copied for one source with all that it repeats, 3,000,000 by default: raise it
    for a larger document that you trust."""


def load(*sources: Any, **options: Unpack[LoadOptions]) -> Toolkit:
    """Return a toolkit of the tools that these sources contain. The options are those of LoadOptions.

    A source is a Python file or module (`tools.py`, `acme.tools:kit`), a folder, a manifest, an MCP server (a URL, a
    command, an mcp.json), an OpenAPI document, code, `builtins` (the built-in tools), or an object: a tool, a registry,
    a toolkit, a FastMCP server. A single source that defines a Toolkit gives that object itself. The tools of several
    sources are added to a new one; of two tools of one name the first is kept, with a warning.

    Raises SourceError for what cannot be loaded, also for a server that cannot be reached; no server stays connected
    then.

    >>> kit = load('''
    ... def greet(name: str) -> str:
    ...     "Greet somebody."
    ...     return f"Hello, {name}!"
    ... ''')
    >>> kit.call("greet", {"name": "Ann"})
    'Hello, Ann!'
    """
    if unknown := unknown_options(options, LoadOptions.__annotations__):
        raise TypeError(f"load(): {unknown}")
    if not sources:
        raise SourceError("There is nothing to load: pass a file, a folder, a module, a server or an object.")
    roots, env, name = options.get("roots"), options.get("env"), options.get("name")
    read_options = ReadOptions(
        trust=Trust(options.get("trust")),
        env=os.environ if env is None else env,
        roots=None if roots is None else to_roots(roots),
        executor=options.get("executor"),
        allow_missing=options.get("allow_missing", False),
        max_values=options.get("max_values"),
        profile=options.get("profile"),
        audience=options.get("audience"),
    )
    located = [classify(source, read_options.folder) for source in sources if not _is_left_out(source, read_options)]
    _refuse_unused_options({kind for kind, _ in located}, read_options)
    contents: list[Contents] = []
    loaded: list[Toolkit] = []
    try:
        for (kind, _), read in zip(located, _prepare(located, read_options), strict=True):
            contents.append(read())
            if kind == "manifest" and contents[-1].toolkit is not None:
                loaded.append(contents[-1].toolkit)
        if len(contents) == 1 and contents[0].toolkit is not None:
            if loaded and name is not None:
                loaded[0].name = name
            return loaded[0] if loaded else _single_toolkit(contents[0], name, read_options)
        return _combine(contents, name, read_options)
    except BaseException:
        for kit in loaded:
            close_servers(kit)
        raise


def _prepare(located: Iterable[tuple[Any, Any]], options: ReadOptions) -> list[Callable[[], Contents]]:
    """Return the functions that read the sources. Raises one error about all that is wrong; no code has run then."""
    prepared: list[Callable[[], Contents]] = []
    errors: list[ToolSpecError | ToolCallError] = []
    for kind, location in located:
        try:
            prepared.append(prepare_source(kind, location, _with_budget(options, location)))
        except (ToolSpecError, ToolCallError) as error:
            errors.append(error)
    if not errors:
        return prepared
    lines = [str(error) for error in errors]
    text = "\n".join(lines)
    refused = [pattern for pattern in options.trust.refused if repr(pattern) in text]  # others have secrets
    if len(errors) == 1 and text.count("\n") == 0:
        raise errors[0]
    if len(refused) > 1:
        lines.append(f"In all, trust=[…] lacks {', '.join(map(repr, refused))}.")
    file, line = (getattr(errors[0], name, None) for name in ("file", "line"))
    raise SourceError("\n".join(lines), file=file, line=line) from errors[0]


async def aload(*sources: Any, **options: Unpack[LoadOptions]) -> Toolkit:
    """Return a toolkit from async code, as `load` does: in a worker thread, so that the event loop is not blocked.

    Servers that are connected when the task is cancelled are closed.
    """
    from ahvn_tools.execution.threads import run_in_thread  # `load` does not need asyncio

    lock, is_cancelled = threading.Lock(), False
    loaded: list[Toolkit] = []

    def load_in_thread(_job: Any) -> Toolkit:
        kit = load(*sources, **options)
        with lock:
            loaded.append(kit)
            if not is_cancelled:
                return kit
        close_loaded()
        return kit

    def close_loaded(_job: Any = None) -> None:
        for kit in loaded:
            if all(kit is not source for source in sources):
                close_servers(kit)

    try:
        kit: Toolkit = (await run_in_thread(load_in_thread)).get()
    except BaseException:
        with lock:
            is_cancelled = True
        if loaded:  # just before the task was cancelled
            await run_in_thread(close_loaded)
        raise
    return kit


def _with_budget(options: ReadOptions, location: Any) -> ReadOptions:
    """Return the options for one source, which has a budget of its own."""
    is_named = isinstance(location, str) and "\n" not in location
    return replace(options, budget=Budget(mask_credentials(location) if is_named else "the source", options.max_values))


def _is_left_out(source: Any, options: ReadOptions) -> bool:
    return options.allow_missing and isinstance(source, os.PathLike) and not Path(source).exists()


def _refuse_unused_options(kinds: set[Any], options: ReadOptions) -> None:
    """Raise SourceError for an option that none of these kinds of sources has."""
    if options.profile is not None and "manifest" not in kinds:
        raise SourceError(f"profile={options.profile!r} is for manifests, and no source is one: leave it out.")
    if options.roots is not None and not kinds & {"builtins", "manifest"}:
        raise SourceError("`roots` is for the source 'builtins' and for manifests, and no source is one: leave it out.")


def _single_toolkit(content: Contents, name: str | None, options: ReadOptions) -> Toolkit:
    """Return the toolkit that a source defines. Raises SourceError for an option that would change it."""
    kit = content.toolkit
    assert kit is not None  # noqa: S101  # for mypy
    if name not in (None, kit.name):
        raise SourceError(
            f"The source defines the toolkit {kit.name!r}, and name={name!r} would change it: leave it out, or add the "
            f"toolkit to another one, with Toolkit({name!r}).add(…)."
        )
    if options.executor is not None:
        raise SourceError(
            f"The source defines the toolkit {kit.name!r}, and executor=… would change it: pass the executor there, or "
            "add the toolkit to another one, with Toolkit(…, executor=…).add(…)."
        )
    add_load_errors(kit, content.errors)
    return kit if options.audience is None else kit.select(audience=options.audience, inactive=True)


def _combine(contents: Sequence[Contents], name: str | None, options: ReadOptions) -> Toolkit:
    """Return a new toolkit of several sources."""
    kit = Toolkit(name or (contents[0].name if contents else "tools"), executor=options.executor, on_duplicate="keep")
    try:
        for content in contents:
            _add(kit, content)
        if options.audience is not None:
            _keep_audience(kit, options.audience)
    except BaseException:
        close_servers(kit)
        raise
    for thing in (thing for content in contents for thing in content.things):
        if isinstance(thing, Toolkit):
            adopt_servers(kit, thing)
    return kit


def _add(kit: Toolkit, content: Contents) -> None:
    add_load_errors(kit, content.errors)
    for thing in content.things:
        kit.add(thing)
        if isinstance(thing, Toolkit):
            add_load_errors(kit, thing.load_errors)
    add_skills(kit, content)
    for server in content.servers:
        with skipping(server.file, lambda error: add_load_errors(kit, [error])):
            try:
                kit.add_mcp(server.server, name=server.name, **server.options)
            except (ToolSpecError, ToolCallError) as error:  # such as a ToolConnectionError
                raise SourceError(str(error)) from error


def _keep_audience(kit: Toolkit, audience: str) -> None:
    """Remove the tools that are not for an audience."""
    seen = {spec.name for spec in kit.select(audience=audience, inactive=True)}
    if hidden := [spec.name for spec in kit if spec.name not in seen]:
        kit.remove(*hidden)
    kit._view.store.audience = audience  # noqa: SLF001  # of this project
