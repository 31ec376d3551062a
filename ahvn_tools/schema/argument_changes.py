"""ArgumentChanges: how the arguments of a tool are renamed and described, also in its input schema."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

from ahvn_tools.errors import DefinitionError, near_misses
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.root_parameters import UnsealableError, refuse_other_rules
from ahvn_tools.state import UNSET


class ArgumentChange(TypedDict, total=False):
    """A change of one argument. The words are those of FastMCP's `ArgTransform`."""

    name: str
    """The new name. Calls, bindings and exports use it; the body gets the argument under its own name."""
    description: str | None
    """The new description; None removes it."""
    default: Any
    """The value if a call leaves it out."""
    required: bool
    """True: callers must set it; an own default is ignored."""
    examples: list[Any]
    """Sample values, for its schema."""


@dataclass(frozen=True)
class ArgumentChanges:
    """The changes of a tool's arguments, by the argument's own name."""

    by_name: Mapping[str, ArgumentChange] = field(default_factory=dict)

    @classmethod
    def parse(cls, changes: Any) -> ArgumentChanges:
        """Return the changes of the option `arguments`. Raises DefinitionError for one that means nothing."""
        if not isinstance(changes, Mapping | None):
            raise DefinitionError(f"`arguments` is a mapping, name -> change, not a {type(changes).__name__}.")
        for name, change in (changes or {}).items():
            _validate_change(name, change)
        return cls({name: dict(change) for name, change in (changes or {}).items()})  # type: ignore[misc]  # validated

    def __bool__(self) -> bool:
        return bool(self.by_name)

    def by_own_names(self, aliases: Mapping[str, str]) -> ArgumentChanges:
        """Return the changes of arguments that may be named by an alias, by their own names."""
        return ArgumentChanges({aliases.get(name, name): change for name, change in self.by_name.items()})

    def new_name(self, name: str) -> str:
        """Return the name of an argument after the change."""
        return self.by_name.get(name, {}).get("name", name)

    def renames(self, names: Collection[str]) -> dict[str, str]:
        """Return the new name of each renamed argument. Raises DefinitionError for unknown names and for a clash."""
        for name in self.by_name:
            if name not in names:
                raise DefinitionError(f"There is no argument {name!r} to change. {near_misses(str(name), names)}")
        taken: dict[str, str] = {}
        for name in names:
            other = taken.setdefault(self.new_name(name), name)
            if other != name:
                raise DefinitionError(
                    f"Both {other!r} and {name!r} would be named {self.new_name(name)!r}. Choose another name."
                )
        return {name: self.new_name(name) for name in names if self.new_name(name) != name}

    def then(self, later: ArgumentChanges) -> ArgumentChanges:
        """Return these changes followed by others, which use the names that these result in."""
        own_names = {self.new_name(name): name for name in self.by_name}
        changes: dict[str, Any] = dict(self.by_name)
        for name, change in later.by_name.items():
            own_name = own_names.get(name, name)
            before: dict[str, Any] = dict(changes.get(own_name, {}))
            for replaced, replacing in (("default", "required"), ("required", "default")):
                if replacing in change:
                    before.pop(replaced, None)
            changes[own_name] = {**before, **change}
        return ArgumentChanges(changes)

    def by_new_name(self) -> dict[str, ArgumentChange]:
        """Return the changes by the new names."""
        return {self.new_name(name): change for name, change in self.by_name.items()}

    def defaults(self) -> dict[str, Any]:
        """Return the new defaults by the new names."""
        return {name: change["default"] for name, change in self.by_new_name().items() if "default" in change}


def change_property(node: Any, change: ArgumentChange) -> Any:
    """Return the schema of an argument with its new description, default and examples."""
    changed = dict(node) if isinstance(node, dict) else {} if node is True else {"not": {}}
    for key in ("description", "default", "examples"):
        if change.get(key, UNSET) is not UNSET:
            changed[key] = change[key]
    if change.get("description", "") is None:
        del changed["description"]
    if change.get("required"):
        changed.pop("default", None)
    return changed


def _validate_change(name: Any, change: Any) -> None:
    """Raise DefinitionError for a change that is malformed or contradicts itself."""
    if not isinstance(change, Mapping):
        raise DefinitionError(f"The change of the argument {name!r} is a dict such as {{'name': 'new'}}.")
    place = f"the change of the argument {name!r}"
    for key in change:
        if key not in ArgumentChange.__annotations__:
            raise DefinitionError(
                f"Unknown {key!r} in {place}. {near_misses(str(key), ArgumentChange.__annotations__)}"
            )
    kinds: list[tuple[str, type | tuple[type, ...], str]] = [
        ("name", str, "a text that is not empty"),
        ("description", (str, type(None)), "a text, or None for none"),
        ("required", bool, "True"),
        ("examples", list, "a list"),
    ]
    for key, kind, words in kinds:
        if key in change and not (isinstance(change[key], kind) and change[key] != ("" if key == "name" else UNSET)):
            raise DefinitionError(f"{key!r} in {place} must be {words}.")
    if change.get("required") is False:
        raise DefinitionError(f"'required' in {place} can only be True: set a default to make the argument optional.")
    if change.get("required") and "default" in change:
        raise DefinitionError(f"A required argument has no default: remove one of them in {place}.")


def change_schema(schema: Mapping[str, Any], changes: ArgumentChanges) -> JsonObject:
    """Return a changed copy. Raises DefinitionError for an argument that it does not have or that cannot be renamed."""
    changed: JsonObject = copy.deepcopy(dict(schema))
    renames = changes.renames(changed.get("properties", {}).keys())
    if renames:
        try:
            refuse_other_rules(changed, frozenset(renames))
        except UnsealableError as error:
            raise DefinitionError(f"The argument {next(iter(renames))!r} cannot be renamed: {error}.") from None
        changed["properties"] = {renames.get(name, name): node for name, node in changed["properties"].items()}
        if "required" in changed:
            changed["required"] = [renames.get(name, name) for name in changed["required"]]
    required = set(changed.get("required", ()))
    for name, change in changes.by_new_name().items():
        changed["properties"][name] = change_property(changed["properties"][name], change)
        required = required | {name} if change.get("required") else required
        if "default" in change:
            required -= {name}
    if required or "required" in changed:
        known = [name for name in changed.get("required", ()) if name in required]
        changed["required"] = [*known, *sorted(required - set(known))]
    return changed
