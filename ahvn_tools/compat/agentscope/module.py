"""StateModule: an object whose state can be saved as JSON data and loaded again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["StateModule"]

Converter = Callable[[Any], Any]


def _unchanged(value: Any) -> Any:
    return value


class StateModule:
    """Saves the attributes that `register_state` names, and those that are StateModules themselves.

    >>> from ahvn_tools.compat.agentscope import StateModule
    >>> class Memory(StateModule):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.notes = []
    ...         self.register_state("notes")
    >>> memory = Memory()
    >>> memory.load_state_dict({"notes": ["tea"]})
    >>> memory.notes, memory.state_dict()
    (['tea'], {'notes': ['tea']})
    """

    def __init__(self) -> None:
        self._converters: dict[str, tuple[Converter, Converter]] = {}

    def register_state(
        self, attr_name: str, custom_to_json: Converter | None = None, custom_from_json: Converter | None = None
    ) -> None:
        """Save this attribute, too. The functions convert its value to JSON data and back."""
        self._converters[attr_name] = (custom_to_json or _unchanged, custom_from_json or _unchanged)

    def state_dict(self) -> dict[str, Any]:
        """Return the state by attribute, as JSON data."""
        modules = {name: module.state_dict() for name, module in self._modules().items()}
        return modules | {name: to_json(getattr(self, name)) for name, (to_json, _) in self._converters.items()}

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Load what `state_dict` returned. With `strict`, a missing attribute raises KeyError before any is loaded."""
        modules = self._modules()
        missing = [name for name in {**modules, **self._converters} if name not in state_dict]
        if strict and missing:
            raise KeyError(f"The state_dict of {type(self).__name__} has no {missing}. Pass strict=False to keep them.")
        for name in [name for name in modules if name in state_dict]:
            modules[name].load_state_dict(state_dict[name], strict)
        for name in [name for name in self._converters if name in state_dict]:
            setattr(self, name, self._converters[name][1](state_dict[name]))

    def _modules(self) -> dict[str, StateModule]:
        return {name: value for name, value in vars(self).items() if isinstance(value, StateModule)}
