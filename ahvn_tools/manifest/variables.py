"""Variables: `${NAME}` and `${NAME:default}` in the texts of a manifest, from the environment."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import SecretStr

from ahvn_tools.errors import SourceError
from ahvn_tools.loading.environment import VARIABLE
from ahvn_tools.manifest.document import Path_, Problem
from ahvn_tools.redaction import text_redactor
from ahvn_tools.sources.budget import Budget

_VALUE_KEYS: Final = frozenset(
    {"preset", "presets", "env", "auth", "headers", "inputs", "http", "http_options", "variables", "server"}
)
"""Keys below which all texts are values, whatever their keys are."""

_SHOWN_KEYS: Final = frozenset(
    {
        "agents", "annotations", "arguments", "audience", "binds", "core", "describe", "description", "exclude",
        "group", "groups", "include", "key", "name", "notes", "prefix", "profile", "rename", "tags", "title",
        "tool_sets", "toolset", "toolsets",
    }
)  # fmt: skip
"""Keys of what models, hosts and errors show."""

_MCP_JSON_PREFIXES: Final = frozenset({"env", "input"})
"""What VS Code writes before the name of a variable: `${env:NAME}`."""


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """The data of a manifest with the values of its variables."""

    data: Any = field(repr=False)
    secret_paths: frozenset[Path_] = field(repr=False)
    """The texts that contain a variable."""
    values: Mapping[str, str] = field(repr=False)
    """The values from the environment, by variable."""
    problems: tuple[Problem, ...]

    def seal(self, value: Any, path: Path_) -> Any:
        """Return a part of the data in which each text that contains a variable is a SecretStr."""
        if path in self.secret_paths and isinstance(value, str):
            return SecretStr(value)
        if isinstance(value, Mapping):
            return {key: self.seal(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.seal(item, (*path, index)) for index, item in enumerate(value)]
        return value

    def contains_secret(self, path: Path_) -> bool:
        """Return whether a part of the data, or a part in it, contains a variable."""
        return path in self._paths_with_secrets

    @functools.cached_property
    def _paths_with_secrets(self) -> frozenset[Path_]:
        return frozenset(path[:end] for path in self.secret_paths for end in range(len(path) + 1))

    def redact(self, text: str) -> str:
        """Return a text in which the values from the environment are replaced by the names of their variables."""
        return text_redactor(self.values)(text)


def resolve_variables(data: Any, env: Mapping[str, str], budget: Budget) -> Resolved:
    """Return the data with the values of its variables, which count. What is wrong is in `problems`."""
    resolver = _Resolver(env, budget)
    resolved = resolver.resolve(data, ())
    return Resolved(
        data=resolved,
        secret_paths=frozenset(resolver.secret_paths),
        values=resolver.values,
        problems=tuple(resolver.problems),
    )


class _Resolver:
    def __init__(self, env: Mapping[str, str], budget: Budget) -> None:
        self._env = env
        self._budget = budget
        self.secret_paths: set[Path_] = set()
        self.values: dict[str, str] = {}
        self.problems: list[Problem] = []

    def resolve(self, value: Any, path: Path_) -> Any:
        if isinstance(value, str):
            return self._resolve_text(value, path)
        if isinstance(value, list):
            return [self.resolve(item, (*path, index)) for index, item in enumerate(value)]
        if isinstance(value, dict):
            return {key: self._resolve_member(key, item, (*path, key)) for key, item in value.items()}
        return value

    def _resolve_member(self, key: str, value: Any, path: Path_) -> Any:
        if path[0] == "sources" and path[2:] == ("code",):
            return value
        if "${" in key.replace("$${", ""):
            self._add_problem(path, "a variable cannot be in a key, only in a value")
        return self.resolve(value, path)

    def _resolve_text(self, text: str, path: Path_) -> str:
        is_code = "\n" in text and path[:-1] == ("sources",)
        if "${" not in text or is_code:
            return text
        names = [match["name"] for match in VARIABLE.finditer(text) if match["name"] is not None]
        if names and _is_shown(path):
            self._add_problem(
                path,
                f"`${{{names[0]}}}` cannot be used here, because this text is shown and variables count as secrets. "
                "Write `$${` for a literal `${`",
            )
            return text
        if names:
            self.secret_paths.add(path)
        return VARIABLE.sub(lambda match: self._replace(match, path), text)

    def _replace(self, match: re.Match[str], path: Path_) -> str:
        name, default = match["name"], match["default"]
        if name is None and match[0] == "$${":
            return "${"
        if name is None:
            self._add_problem(path, "a variable is `${NAME}` or `${NAME:default}`, and a literal `${` is `$${`")
        elif name in _MCP_JSON_PREFIXES and default:
            self._add_problem(
                path, f"write `${{{default}}}`: `{name}:` belongs to mcp.json, and here `:` begins a default"
            )
        elif (value := self._look_up(name, path)) is not None:
            self.values[name] = value
            self._budget.spend(chars=len(value))
            return value
        elif default is not None:
            return default
        else:
            self._add_problem(
                path, f"the environment variable {name!r} is not set. Set it, or write `${{{name}:default}}`"
            )
        return ""

    def _look_up(self, name: str, path: Path_) -> str | None:
        try:
            return self._env.get(name)
        except SourceError as error:  # it is not trusted
            self._add_problem(path, str(error).removesuffix("."))
            return ""

    def _add_problem(self, path: Path_, message: str) -> None:
        self.problems.append(Problem(path=path, message=f"{message}."))


def _is_shown(path: Path_) -> bool:
    """Return whether models, hosts or errors see a text."""
    if path[0] == "binds" and path[2:3] == ("default",):
        return False
    for key in path[2:] if path[0] == "tools" else path:  # the second one is the name of a tool
        if key in _VALUE_KEYS:
            return False
        if key in _SHOWN_KEYS:
            return True
    return False
