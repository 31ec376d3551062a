"""ChangedSpec: a spec with other options in one toolkit."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from ahvn_tools.binding import StateScopes
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.execution.plan import CompiledTool
from ahvn_tools.settings import ToolOptions, validate_options
from ahvn_tools.spec import ToolSpec
from ahvn_tools.state import StateKey
from ahvn_tools.template import ToolTemplate

log = logging.getLogger(__name__)


class ChangedSpec(ToolSpec):
    """Another spec with more options. What is bound on that spec later, or changed by its server, applies here too."""

    def __init__(self, spec: ToolSpec, options: ToolOptions) -> None:
        """Change a spec. Raises DefinitionError for options that do not fit."""
        self.original = spec
        self._options = validate_options(options)
        self._lock = threading.Lock()
        self._adapter = None
        self.error: str | None = None
        """Why the options no longer fit the spec, which has changed; then `compiled` is the last one that they fit."""
        base = spec.compiled
        self._cache = base, self._compile(base)

    @property
    def changes(self) -> ToolOptions:
        """The options that are changed."""
        return self._options  # type: ignore[return-value]  # validated, and a mapping as it was given

    @property
    def compiled(self) -> CompiledTool:  # type: ignore[override]  # computed here, an attribute of a spec
        """The template with the options, and the bindings of the spec."""
        base, compiled = self._cache
        if base is self.original.compiled:
            return compiled
        base = self.original.compiled
        try:
            compiled, self.error = self._compile(base), None
        except ToolSpecError as error:
            self.error = str(error)
            name = compiled.template.name
            log.warning("The options of the tool %r no longer fit it, and it keeps its definition: %s", name, error)
        self._cache = base, compiled
        return compiled

    def _compile(self, base: CompiledTool) -> CompiledTool:
        return base.with_options(self._options, self.original.body)

    @property
    def body(self) -> Callable[..., Any]:  # type: ignore[override]  # as above
        """The body of the spec."""
        return self.original.body

    @property
    def state_scopes(self) -> StateScopes:  # type: ignore[override]  # as above
        """The states of the spec."""
        return self.original.state_scopes

    @property
    def _secrets(self) -> frozenset[StateKey]:  # type: ignore[override]  # as above
        return self.original._secrets  # noqa: SLF001  # of another spec

    def replace_template(self, template: ToolTemplate, body: Callable[..., Any]) -> None:
        """Let the spec become another tool."""
        self.original.replace_template(template, body)

    def clone(self) -> ToolSpec:  # type: ignore[override]  # a plain spec
        """Return a copy of the spec with these options."""
        twin = self.original.clone()
        twin.compiled = self.compiled
        return twin

    def _clear_cache(self) -> None:
        self.original._clear_cache()  # noqa: SLF001  # of another spec
