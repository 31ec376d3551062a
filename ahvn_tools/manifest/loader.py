"""Loader: makes a toolkit of sources."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ahvn_tools.errors import SourceError, ToolCallError, ToolSpecError, suggests_options
from ahvn_tools.loading.contents import Contents, ServerSource, add_load_errors, adopt_servers, close_servers, skipping
from ahvn_tools.loading.kinds import classify, read_source
from ahvn_tools.loading.options import ReadOptions
from ahvn_tools.redaction import mask_credentials
from ahvn_tools.roots import Roots, to_roots
from ahvn_tools.sources.budget import Budget
from ahvn_tools.toolkit import Toolkit
from ahvn_tools.trust import Trust

if TYPE_CHECKING:
    from concurrent.futures import Executor


_TOOLSET_FOLDERS = ("configs/tool_sets", "configs/tool-sets")


@suggests_options
def load(
    *sources: Any,
    name: str | None = None,
    profile: str | None = None,
    audience: str | None = None,
    trust: Iterable[str | os.PathLike[str]] | None = None,
    roots: Roots | None = None,
    env: Mapping[str, str] | None = None,
    tool_sets: Iterable[str | os.PathLike[str]] = (),
    executor: Executor | None = None,
    allow_missing: bool = False,
    max_values: int | None = None,
) -> Toolkit:
    """Return a toolkit of the tools that these sources contain.

    A source is a Python file or module (`tools.py`, `acme.tools:kit`), a folder, a manifest, an MCP server (a URL, a
    command, an mcp.json), an OpenAPI document, code, `builtins` (the built-in tools), or an object: a tool, a registry,
    a toolkit, a FastMCP server. A single source that defines a Toolkit gives that object itself. The tools of several
    sources are added to a new one; of two tools of one name the first is kept, with a warning.

    `name` is the name of the toolkit. `profile` is the profile of manifests to use, by default the one that the
    environment variable AHVN_TOOLS_PROFILE names. `audience` gives the toolkit of one audience, with what manifests say
    for it. `trust` lists what the sources may run, start, read, write, send and use, as docs/sources.md says; by
    default it is all that they name. `roots` are the folders that the built-in tools may use, and of the roots of
    manifests only what is in these. `env` replaces the environment variables that manifests refer to. `tool_sets` are
    files with toolsets, and folders of such files. `executor` is where the bodies of tools with `isolation="executor"`
    run, as of a Toolkit. With `allow_missing` a `Path` that does not exist, in `sources` and `tool_sets`, and a folder
    without tools are no errors. `max_values` is how many values may be read and copied for one source with all that it
    repeats, 3,000,000 by default: raise it for a larger document that you trust. Raises SourceError for what cannot be
    loaded, also for a server that cannot be reached; no server stays connected then.

    >>> kit = load('''
    ... def greet(name: str) -> str:
    ...     "Greet somebody."
    ...     return f"Hello, {name}!"
    ... ''')
    >>> kit.call("greet", {"name": "Ann"})
    'Hello, Ann!'
    """
    if not sources:
        raise SourceError("There is nothing to load: pass a file, a folder, a module, a server or an object.")
    options = ReadOptions(
        trust=Trust(trust),
        env=os.environ if env is None else env,
        roots=None if roots is None else to_roots(roots),
        executor=executor,
        allow_missing=allow_missing,
        max_values=max_values,
    )
    files = _find_toolset_files(tool_sets, options)
    located = [classify(source, options.folder) for source in _present(sources, options)]
    _refuse_unused_options({kind for kind, _ in located}, profile, options.roots, files)
    if [kind for kind, _ in located] == ["manifest"]:
        return _load_manifest(located[0][1], options, profile, audience, name)
    contents: list[Contents] = []
    loaded: list[Toolkit] = []
    try:
        for kind, location in located:
            if kind == "builtins":
                contents.append(_read_builtins(options))
            elif kind == "manifest":
                loaded.append(_load_manifest(location, options, profile, audience, None))
                contents.append(Contents(name=loaded[-1].name, toolkit=loaded[-1]))
            else:
                contents.append(read_source(kind, location, _with_budget(options, location)))
        if len(contents) == 1 and contents[0].toolkit is not None and not files:
            return _single_toolkit(contents[0], name, audience, executor)
        kit = _combine(contents, name, audience, executor)
        folders = (Path(location) for kind, location in located if kind == "folder")
        _add_toolsets(kit, folders, files, options)
        return kit
    except BaseException:
        for kit in loaded:
            close_servers(kit)
        raise


@suggests_options
async def aload(
    *sources: Any,
    name: str | None = None,
    profile: str | None = None,
    audience: str | None = None,
    trust: Iterable[str | os.PathLike[str]] | None = None,
    roots: Roots | None = None,
    env: Mapping[str, str] | None = None,
    tool_sets: Iterable[str | os.PathLike[str]] = (),
    executor: Executor | None = None,
    allow_missing: bool = False,
    max_values: int | None = None,
) -> Toolkit:
    """Return a toolkit from async code, as `load` does: in a worker thread, so that the event loop is not blocked.

    Servers that are connected when the task is cancelled are closed.
    """
    from ahvn_tools.execution.threads import run_in_thread  # `load` does not need asyncio

    lock, is_cancelled = threading.Lock(), False
    loaded: list[Toolkit] = []

    def load_in_thread(_job: Any) -> Toolkit:
        kit = load(
            *sources,
            name=name,
            profile=profile,
            audience=audience,
            trust=trust,
            roots=roots,
            env=env,
            tool_sets=tool_sets,
            executor=executor,
            allow_missing=allow_missing,
            max_values=max_values,
        )
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


def _load_manifest(
    location: str, options: ReadOptions, profile: str | None, audience: str | None, name: str | None
) -> Toolkit:
    from ahvn_tools.manifest.builder import Choice, load_manifest

    return load_manifest(
        location, _with_budget(options, location), Choice(profile=profile, audience=audience, name=name)
    )


def _with_budget(options: ReadOptions, location: Any) -> ReadOptions:
    """Return the options for one source, which has a budget of its own."""
    is_named = isinstance(location, str) and "\n" not in location
    return replace(options, budget=Budget(mask_credentials(location) if is_named else "the source", options.max_values))


def _present(sources: Iterable[Any], options: ReadOptions) -> list[Any]:
    """Return the sources without those paths that may be missing, and are."""
    if not options.allow_missing:
        return list(sources)
    return [source for source in sources if not isinstance(source, os.PathLike) or Path(source).exists()]


def _refuse_unused_options(
    kinds: AbstractSet[str], profile: str | None, roots: Collection[Path] | None, tool_sets: Collection[Any]
) -> None:
    """Raise SourceError for an option that none of these kinds of sources has."""
    if tool_sets and kinds == {"manifest"}:
        raise SourceError("A manifest has its own key `tool_sets`: write it there, and leave the option out.")
    if profile is not None and "manifest" not in kinds:
        raise SourceError(f"profile={profile!r} is for manifests, and no source is one: leave it out.")
    if roots is not None and not kinds & {"builtins", "manifest"}:
        raise SourceError("`roots` is for the source 'builtins' and for manifests, and no source is one: leave it out.")


def _read_builtins(options: ReadOptions) -> Contents:
    """Return all built-in tools of the host's roots. Raises SourceError without one."""
    from ahvn_tools.manifest.builtins_source import read_builtins  # slow, and not for other sources

    return read_builtins("standard", options.roots or (), options.trust)


def _single_toolkit(content: Contents, name: str | None, audience: str | None, executor: Executor | None) -> Toolkit:
    """Return the toolkit that a source defines. Raises SourceError for an option that would change it."""
    kit = content.toolkit
    assert kit is not None  # noqa: S101  # for mypy
    if name not in (None, kit.name):
        raise SourceError(
            f"The source defines the toolkit {kit.name!r}, and name={name!r} would change it: leave it out, or add the "
            f"toolkit to another one, with Toolkit({name!r}).add(…)."
        )
    if executor is not None:
        raise SourceError(
            f"The source defines the toolkit {kit.name!r}, and executor=… would change it: pass the executor there, or "
            "add the toolkit to another one, with Toolkit(…, executor=…).add(…)."
        )
    add_load_errors(kit, content.errors)
    return kit if audience is None else kit.select(audience=audience, inactive=True)


def _combine(
    contents: Sequence[Contents], name: str | None, audience: str | None, executor: Executor | None
) -> Toolkit:
    """Return a new toolkit of several sources."""
    kit = Toolkit(name or (contents[0].name if contents else "tools"), executor=executor, on_duplicate="keep")
    try:
        for content in contents:
            _add(kit, content)
        if audience is not None:
            _keep_audience(kit, audience)
    except BaseException:
        close_servers(kit)
        raise
    for thing in (thing for content in contents for thing in _things(content)):
        if isinstance(thing, Toolkit):
            adopt_servers(kit, thing)
    return kit


def _add(kit: Toolkit, content: Contents) -> None:
    add_load_errors(kit, content.errors)
    for thing in _things(content):
        kit.add(thing)
        if isinstance(thing, Toolkit):
            add_load_errors(kit, thing.load_errors)
    for server in content.servers:
        with skipping(server.file, lambda error: add_load_errors(kit, [error])):
            _add_server(kit, server)


def _add_server(kit: Toolkit, server: ServerSource) -> None:
    try:
        kit.add_mcp(server.server, name=server.name, **server.options)
    except (ToolSpecError, ToolCallError) as error:  # such as a ToolConnectionError
        raise SourceError(str(error)) from error


def _things(content: Contents) -> Sequence[Any]:
    return content.tools if content.toolkit is None else (content.toolkit,)


def _add_toolsets(kit: Toolkit, folders: Iterable[Path], files: Sequence[Path], options: ReadOptions) -> None:
    """Add the toolsets in `configs/tool_sets` of folders, and of files. A broken file is skipped and remembered."""
    own_folders = [folder for folder in folders if any((folder / place).is_dir() for place in _TOOLSET_FOLDERS)]
    if not (own_folders or files):
        return
    from ahvn_tools.manifest.toolset_files import add_toolset_files, find_files  # slow, and few folders have any

    for folder in own_folders:
        own = replace(options.for_documents_in(folder.resolve()), folder=folder)
        add_load_errors(kit, add_toolset_files(kit, find_files(folder), own))
    add_load_errors(kit, add_toolset_files(kit, files, options))


def _find_toolset_files(tool_sets: Iterable[Any], options: ReadOptions) -> list[Path]:
    """Return the files of the option `tool_sets`. Raises SourceError for a missing one, before anything is loaded."""
    if isinstance(tool_sets, str | os.PathLike):
        raise SourceError(f"`tool_sets` is a list of files and folders: write tool_sets=[{os.fspath(tool_sets)!r}].")
    places = [os.fspath(place) for place in _present(tool_sets, options)]
    if not places:
        return []
    from ahvn_tools.manifest.toolset_files import find_files  # as above

    return find_files(options.folder, places)


def _keep_audience(kit: Toolkit, audience: str) -> None:
    """Remove the tools that are not for an audience."""
    seen = {spec.name for spec in kit.select(audience=audience, inactive=True)}
    if hidden := [spec.name for spec in kit if spec.name not in seen]:
        kit.remove(*hidden)
    kit._view.store.audience = audience  # noqa: SLF001  # of this project
