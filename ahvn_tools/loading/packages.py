"""Installed packages as a source: what they register in the entry-point group `ahvn_tools`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from ahvn_tools.errors import SourceError, near_misses
from ahvn_tools.loading import members
from ahvn_tools.loading.contents import Contents
from ahvn_tools.loading.module_import import import_module, running_code_of
from ahvn_tools.loading.options import ReadOptions
from ahvn_tools.loading.python_modules import find_attribute

GROUP: Final = "ahvn_tools"


def read(location: str, options: ReadOptions) -> Contents:
    """Return the tools of an entry point, or of all that a distribution has; `location` names one or the other.

    An entry point refers to a module, to anything that a module may contain as a tool, or to a function without
    parameters that returns such an object. Raises SourceError.
    """
    points = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    chosen = [point for point in points if point.name == location]
    if not chosen:
        chosen = [point for point in points if _normalize(_distribution(point)) == _normalize(location)]
    if not chosen:
        known = sorted({*(point.name for point in points), *map(_distribution, points)} - {""})
        raise SourceError(
            f"No installed package has the entry point {location!r} in the group {GROUP!r}. "
            f"{near_misses(location, known)}"
        )
    found = [_read_point(point, options) for point in _once(chosen)]
    if len(found) == 1:
        return found[0]
    return Contents(
        name=location,
        tools=tuple(tool for part in found for tool in (part.tools if part.toolkit is None else (part.toolkit,))),
        servers=tuple(server for part in found for server in part.servers),
    )


def _once(points: Iterable[EntryPoint]) -> Iterable[EntryPoint]:
    """Return each entry point once: a distribution may be on the search path twice."""
    return {(point.name, point.value): point for point in points}.values()


def _read_point(point: EntryPoint, options: ReadOptions) -> Contents:
    place = f"The entry point {point.name!r}"
    module = import_module(point.module, options)
    if not point.attr:
        contents = members.read_module(module, point.module)
        if contents.is_empty:
            raise SourceError(f"{place}: the module {point.module!r} has no tools.")
        return contents
    value = find_attribute(point.module, module, point.attr)
    if _is_factory(value):
        with running_code_of(f"{place}"):
            value = value()
    return members.read_object(value, point.name, place)


def _is_factory(value: Any) -> bool:
    """Return whether a value is a plain function without required parameters: it returns the tools."""
    if not inspect.isfunction(value):
        return False
    return all(
        one.default is not one.empty or one.kind in {one.VAR_POSITIONAL, one.VAR_KEYWORD}
        for one in inspect.signature(value).parameters.values()
    )


def _distribution(point: EntryPoint) -> str:
    return "" if point.dist is None else point.dist.name


def _normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
