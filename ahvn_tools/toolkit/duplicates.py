"""Duplicate: two tools of one name, and what a toolkit did about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from ahvn_tools.errors import DefinitionError, ToolkitError
from ahvn_tools.formats.rendering.names import wire_name
from ahvn_tools.settings import one_of

OnDuplicate = Literal["raise", "keep", "replace", "rename"]
"""What to do with a second tool of the same name."""

ON_DUPLICATE: Final = one_of(*get_args(OnDuplicate))


@dataclass(frozen=True, kw_only=True)
class Duplicate:
    """Two tools of one name, and what was done about them."""

    name: str
    """The name of the other tool when it was added."""
    kept: str
    """Where the tool comes from that has the name now."""
    other: str
    """Where the other tool comes from."""
    action: Literal["keep", "replace", "rename"]
    """`"keep"`: the other tool was not added. `"replace"`: it was there, and is not used any more. `"rename"`: it has
    the name `new_name`."""
    new_name: str | None = None
    """The new name of the other tool; None unless it was renamed."""
    kept_name: str
    """The name of the tool that has it now: the same, or one that models would see as the same."""

    @property
    def reason(self) -> str:
        """Why the other tool cannot have its name."""
        clash = "" if self.name == self.kept_name else f"models would see it as {wire_name(self.name)!r}, too, and "
        return f"{clash}the name belongs to the tool {self.kept_name!r} from {self.kept}"

    def __str__(self) -> str:
        result = "is not used" if self.new_name is None else f"is now {self.new_name!r}"
        return f"The tool {self.name!r} from {self.other} {result}: {self.reason}"


def validate_on_duplicate(value: Any) -> OnDuplicate:
    """Return a policy. Raises ToolkitError for an unknown one."""
    try:
        ON_DUPLICATE("on_duplicate", value)
    except DefinitionError as error:
        raise ToolkitError(str(error)) from None
    return value  # type: ignore[no-any-return]  # one of the policies
