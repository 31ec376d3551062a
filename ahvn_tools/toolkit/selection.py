"""Selection: a condition that the tools of a selected toolkit meet; Toolset: a selection that was saved."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, TypedDict

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import ToolkitError
from ahvn_tools.settings import FLAG
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.entry_options import checked, refuse_unknown_options, to_name_set, validate_callable


@dataclass(frozen=True, kw_only=True)
class Group:
    """A group of tools that can be switched on and off."""

    name: str
    description: str = ""
    is_active: bool = False
    """Whether it is active where neither a session nor the toolkit has switched it."""
    notes: str | None = None
    """Notes for the model while the group is active."""
    is_defined: bool = False
    """Whether the host has defined it; otherwise it is only a label of its tools."""
    unique_id: int = 0
    """Distinguishes it from a removed group of the same name, whose switches do not apply to it."""


class Conditions(TypedDict, total=False):
    """Conditions on a tool. It matches when it meets all of them."""

    names: Collection[str]
    """The tool has one of these names."""
    tags: Collection[str]
    """The tool has at least one of these tags."""
    groups: Collection[str]
    """The tool is in one of these groups."""
    audience: str
    """The tool is for this audience, or for everyone."""
    toolset: str
    """The tool matches the selection that was saved under this name."""
    where: Callable[[ToolDefinition], bool]
    """The function returns True for the tool's definition. It is called last."""


class SelectionOptions(Conditions, total=False):
    """The options of `select` and `add_toolset`. A tool matches when it meets all of them."""

    any_of: Sequence[str | Conditions]
    """The tool matches at least one of these: names of toolsets, and conditions such as `{"names": ["find"]}`."""
    ordered: bool
    """Whether the tools come in the order of `names` and `any_of`, instead of that of the toolkit."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """A condition on tools. A None field is no condition."""

    names: frozenset[str] | None = None
    listed_names: tuple[str, ...] = ()
    """`names` in their order; no option of `select`."""
    tags: frozenset[str] | None = None
    groups: frozenset[str] | None = None
    audience: str | None = None
    audiences: frozenset[str] | None = None
    """As `audience`, where a server has several; no option of `select`."""
    toolset: str | None = None
    any_of: tuple[Selection, ...] | None = None
    where: Callable[[ToolDefinition], bool] | None = None
    ordered: bool = False
    """Whether the tools come in the order of `names` and `any_of`."""

    @classmethod
    def from_options(cls, options: SelectionOptions) -> Selection:
        """Return the selection of these options. Raises ToolkitError for an unknown option and for a wrong type."""
        refuse_unknown_options(options, SelectionOptions)
        any_of = _to_alternatives(options["any_of"]) if options.get("any_of") is not None else None
        ordered = checked("`ordered` of a selection", options.get("ordered", False), FLAG)
        if ordered:
            _refuse_names_without_order([options, *(options.get("any_of") or ())])
        conditions: Any = {key: value for key, value in options.items() if key not in {"any_of", "ordered"}}
        return replace(cls._from_conditions(conditions), any_of=any_of, ordered=ordered)

    @classmethod
    def _from_conditions(cls, options: Conditions) -> Selection:
        refuse_unknown_options(options, Conditions)
        name: Any
        for key, name in (("audience", options.get("audience", "")), ("toolset", options.get("toolset", ""))):
            if not isinstance(name, str):
                hint = " Leave it out, or open session(audience=None)." if key == "audience" and name is None else ""
                raise ToolkitError(f"{key!r} of a selection is one name, not {name!r}.{hint}")
        if (where := options.get("where")) is not None:
            validate_callable("'where' of a selection", "a function of the definition", where)
        listed = {key: _to_optional_names(key, options.get(key)) for key in ("names", "tags", "groups")}
        name_sets: Any = {key: None if names is None else frozenset(names) for key, names in listed.items()}
        return cls(**{**options, **name_sets}, listed_names=listed["names"] or ())

    def matches(self, entry: Entry, definition: Callable[[Entry], ToolDefinition]) -> bool:
        """Return whether a tool meets the condition, apart from `toolset` and `any_of`.

        `definition` is called only when `where` needs it.
        """
        return (
            (self.names is None or entry.name in self.names)
            and (self.tags is None or not self.tags.isdisjoint(entry.tags))
            and (self.groups is None or entry.group in self.groups)
            and (self.audience is None or not entry.audience or self.audience in entry.audience)
            and (self.audiences is None or not entry.audience or not self.audiences.isdisjoint(entry.audience))
            and (self.where is None or bool(self.where(definition(entry))))
        )

    def including(self, names: Iterable[str]) -> Selection:
        """Return a selection that tools with these names match, too, unless they are for an audience."""
        others = Selection(names=frozenset(names), audience="")  # it does not change which audience this is for
        return Selection(any_of=(self, others), ordered=self.ordered)

    @functools.cached_property
    def positions(self) -> Mapping[str, int]:
        """Where each of the names is in their order."""
        return {name: index for index, name in enumerate(dict.fromkeys(self.listed_names))}

    def parts(self) -> Iterator[Selection]:
        """Yield this selection, then those in `any_of`."""
        yield self
        yield from self.any_of or ()

    def toolset_names(self) -> list[str]:
        """Return the names of the toolsets that it refers to."""
        return [part.toolset for part in self.parts() if part.toolset is not None]


@dataclass(frozen=True, kw_only=True)
class Toolset:
    """A selection that was saved under a name."""

    name: str
    description: str = ""
    selection: Selection


def _to_alternatives(any_of: Any) -> tuple[Selection, ...]:
    if isinstance(any_of, str | Mapping) or not isinstance(any_of, Iterable):
        raise ToolkitError(f"'any_of' of a selection is a list; put {any_of!r} in one.")
    return tuple(map(_to_alternative, any_of))


def _to_alternative(item: Any) -> Selection:
    if isinstance(item, str):
        return Selection(toolset=item)
    if not isinstance(item, Mapping):
        raise ToolkitError(
            "'any_of' of a selection has names of toolsets, and conditions such as {'names': ['find']}, "
            f"not a {type(item).__name__}."
        )
    return Selection._from_conditions(item)  # type: ignore[arg-type]  # noqa: SLF001  # its options are checked there


def _refuse_names_without_order(parts: Iterable[str | Conditions]) -> None:
    for part in parts:
        if not isinstance(part, str) and isinstance(names := part.get("names"), AbstractSet):
            raise ToolkitError(f"A set has no order: pass a list as the names of an ordered selection, not {names!r}.")


def _to_optional_names(key: str, names: Any) -> tuple[str, ...] | None:
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise ToolkitError(f"{key!r} of a selection is a list of names; put {names!r} in one.")
    listed = tuple(names)
    to_name_set(f"{key} of a selection", listed)
    return listed
