"""Loads the file of a manifest into a toolkit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ahvn_tools.errors import SourceError
from ahvn_tools.loading.options import ReadOptions
from ahvn_tools.manifest.build import Build
from ahvn_tools.manifest.builder import Builder
from ahvn_tools.manifest.document import Document, Problem, merge_part, read_document, resolve_variables, unknown_part
from ahvn_tools.manifest.validation import validate, validate_written
from ahvn_tools.toolkit import Toolkit

PROFILE_VARIABLE: Final = "AHVN_TOOLS_PROFILE"
"""The environment variable that names the profile where `load` does not."""

MAX_DEPTH: Final = 20
"""How many manifests may lead to another one."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which parts of a manifest are used."""

    profile: str | None = None
    audience: str | None = None
    name: str | None = None
    """The name of the toolkit, instead of what the manifest says."""
    is_profile_required: bool = True
    """Whether the manifest must have the profile: an inherited one is used where there is one of its name."""


def load_manifest(
    location: str, options: ReadOptions, choice: Choice, *, shown: str | None = None, ancestors: tuple[Path, ...] = ()
) -> Toolkit:
    """Return the toolkit of a manifest. Raises SourceError, about all that is wrong, with a line for each.

    `shown` is how errors name the file; `ancestors` are the manifests that lead to it.
    """
    options.require_readable(location)
    file = options.resolve(location).resolve()
    shown = location if shown is None else shown
    if file in ancestors:
        chain = " -> ".join(path.name for path in (*ancestors[ancestors.index(file) :], file))
        raise SourceError(f"{shown}: the manifest includes itself: {chain}.", file=shown)
    if len(ancestors) >= MAX_DEPTH:
        raise SourceError(f"{shown}: manifests include each other too deeply: at most {MAX_DEPTH} levels.", file=shown)
    options.budget.spend_parts()
    written = read_document(file, shown, options.budget)
    document, choice = _choose_parts(written, options.env, choice)
    options = replace(options.for_documents_in(file.parent), folder=file.parent)
    build = _prepare(written, document, options, choice, (*ancestors, file))
    kit = Builder(build=build, load_nested=_load_nested).toolkit(file.stem)
    if choice.name is not None:
        kit.name = choice.name
    store = kit._view.store  # noqa: SLF001  # of another package of this project
    store.audience = choice.audience
    if choice.audience is None and isinstance(
        parts := merge_part(written, "profiles", choice.profile).data.get("audiences"), Mapping
    ):
        store.separate_audiences |= frozenset(parts)
    return kit


def _load_nested(location: str, build: Build, profile: str | None) -> Toolkit:
    shown = build.document.yaml.name if build.document.yaml is not None else ""
    choice = Choice(profile=profile or build.profile, audience=build.audience, is_profile_required=profile is not None)
    nested_shown = (Path(shown).parent / location).as_posix()
    return load_manifest(location, build.read_options, choice, shown=nested_shown, ancestors=build.ancestors)


def _choose_parts(written: Document, env: Mapping[str, str], choice: Choice) -> tuple[Document, Choice]:
    """Return the document with the profile and the audience merged over it, and what was chosen."""
    profile, is_required = choice.profile, choice.is_profile_required
    source = ""
    if profile is None and is_required and env.get(PROFILE_VARIABLE):
        profile, source = env[PROFILE_VARIABLE], f" The environment variable {PROFILE_VARIABLE} names it."
    if profile is not None and (problem := unknown_part(written, "profiles", profile)) is not None:
        if is_required:
            raise written.error([Problem(path=("profiles",), message=problem + source)])
        profile = None
    document = written
    for kind, name in (("profiles", profile), ("audiences", choice.audience)):
        document = merge_part(document, kind, name)
    return document, replace(choice, profile=profile)


def _prepare(
    written: Document, document: Document, options: ReadOptions, choice: Choice, ancestors: tuple[Path, ...]
) -> Build:
    """Return what the toolkit is made from. Raises SourceError for what can be seen without loading a source."""
    resolved = resolve_variables(document.data, options.variables, options.budget)
    manifest, problems = validate(resolved.data)
    unresolved = {problem.path for problem in resolved.problems}
    problems = [*resolved.problems, *(problem for problem in problems if problem.path not in unresolved)]
    if document is not written:
        written_problems = validate_written(written.data)
        known = {document.origin(problem.path) for problem in problems}
        problems += [
            replace(problem, path=problem.path, is_written=True)
            for problem in written_problems
            if problem.path not in known
        ]
    if problems or manifest is None:
        raise document.error(problems)
    return Build(
        document=document,
        manifest=manifest,
        resolved=resolved,
        read_options=options,
        profile=choice.profile,
        audience=choice.audience,
        ancestors=ancestors,
    )
