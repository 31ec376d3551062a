"""Build: what the parts of a toolkit are made with, and where their errors go."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ahvn_tools.errors import SourceError, ToolCallError, ToolSpecError, near_misses
from ahvn_tools.execution.call import Middleware
from ahvn_tools.loading.options import ReadOptions
from ahvn_tools.loading.python_modules import read_member, split_location
from ahvn_tools.manifest import middleware_table
from ahvn_tools.manifest.document import Document, Problem, Resolved
from ahvn_tools.manifest.model import Manifest
from ahvn_tools.manifest.validation import describe_option_errors
from ahvn_tools.sources.budget import BudgetError
from ahvn_tools.toolkit import Toolkit
from ahvn_tools.toolkit.entry_options import validate_middleware


@dataclass(frozen=True, kw_only=True)
class Build:
    """A manifest that becomes a toolkit."""

    document: Document
    manifest: Manifest
    resolved: Resolved
    read_options: ReadOptions
    profile: str | None
    audience: str | None
    ancestors: tuple[Any, ...] = ()
    """The files of the manifests that lead to this one, and this one."""
    problems: list[Problem] = field(default_factory=list)
    parameters: dict[str, set[str]] = field(default_factory=dict)
    """The tools that the sources contain, also those that are left out: name here -> parameters."""
    nested: list[Toolkit] = field(default_factory=list)
    """The toolkits of the manifests that this one includes."""
    others: list[Toolkit] = field(default_factory=list)
    """The toolkits that other sources define."""

    @contextlib.contextmanager
    def at(self, *path: str | int) -> Iterator[None]:
        """Collect an error as a problem of a part of the manifest."""
        try:
            yield
        except BudgetError:  # nothing is left for what comes after it
            raise
        except NestedError as error:
            self.problems.append(Problem(path=path, message=str(error), is_complete=True))
        except (ToolSpecError, ToolCallError) as error:  # such as a ToolConnectionError
            self.problems.append(Problem(path=path, message=self.resolved.redact(str(error))))

    def raise_problems(self) -> None:
        """Raise SourceError if there is a problem."""
        if self.problems:
            raise self.document.error(self.problems) from None

    def middleware(self, items: Sequence[dict[str, dict[str, Any] | None]], *path: str | int) -> list[Middleware]:
        """Return the middleware of these items. A wrong one is a problem."""
        made = []
        for index, item in enumerate(items):
            with self.at(*path, index):
                made.append(validate_middleware(self._middleware(item)))
        return made

    def _middleware(self, item: dict[str, dict[str, Any] | None]) -> Middleware:
        ((name, options),) = item.items()
        if ":" not in name:
            try:
                return middleware_table.build(name, options or {}, self.read_options)
            except ValueError as error:
                raise ToolSpecError(describe_option_errors(name, error, middleware_table.MIDDLEWARE[name])) from None
        member = self.member(name)
        if options is None:
            return member  # type: ignore[no-any-return]  # `use` validates it
        _require_parameters(name, member, options)
        try:
            made: Middleware = member(**options)
        except ToolSpecError:
            raise
        except Exception as error:  # code of the host
            raise ToolSpecError(f"{name!r} cannot be made with these options: {type(error).__name__}.") from error
        return made

    def member(self, location: str) -> Any:
        """Return the object at an import path. Raises SourceError."""
        file, name = split_location(location)
        if name is None:
            raise ToolSpecError(f"{location!r} is no import path: write `module:name` or `FILE.py:name`.")
        return read_member(file, name, self.read_options)


def _require_parameters(name: str, function: Any, options: Mapping[str, Any]) -> None:
    """Raise ToolSpecError for options that a function does not take."""
    if not callable(function):
        raise ToolSpecError(f"{name!r} is a {type(function).__name__} and no function, so it takes no options.")
    parameters = inspect.signature(function).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    for option in options:
        if option not in parameters:
            raise ToolSpecError(f"{name!r} has no option {option!r}. {near_misses(option, parameters)}")


class NestedError(SourceError):
    """An error of another manifest, which names its own file and lines."""
