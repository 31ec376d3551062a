"""The data of a tool: written, and read again without running anything that is not trusted."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from ahvn_tools import definition_lock
from ahvn_tools.binding import Binding
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import SourceError, ToolSpecError, quote_name
from ahvn_tools.execution.compiled_tool import CompiledTool
from ahvn_tools.json_types import JsonObject
from ahvn_tools.sources import function as function_source
from ahvn_tools.sources.injection import function_of
from ahvn_tools.spec_data.binds import BindData, OptionsData, read_binds, write_binds, write_options
from ahvn_tools.spec_data.code import CodeData, Function, read_code, write_code
from ahvn_tools.spec_data.fields import error, join, read, read_json, read_object
from ahvn_tools.spec_data.public_parts import secret_keys
from ahvn_tools.state import StateKey
from ahvn_tools.template import ToolTemplate
from ahvn_tools.trust import Trust

VERSION: Final = 1
"""Another version may have other fields, or calculate the fingerprint differently."""

_FIELDS: Final = ("version", "definition", "fingerprint", "code", "options", "binds", "digest")

_OTHER_FIELDS: Final = ("secret_keys", "spec_class")


def digest(data: JsonObject) -> str:
    """Return the SHA-256, in hex, of all fields but `digest`: it notices a change, and proves no origin."""
    others = {name: value for name, value in data.items() if name != "digest"}
    return hashlib.sha256(json.dumps(others, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True, repr=False)
class ToolData:
    """The data of one tool. Nothing is imported or run before `load`."""

    definition: ToolDefinition
    code: CodeData
    options: OptionsData
    binds: list[BindData]
    secret_keys: frozenset[StateKey]
    spec_class: str | None = None
    """The subclass of ToolSpec that the tool was an instance of, by its full name."""

    @classmethod
    def read(cls, data: Any) -> Self:
        """Return the data, checked as far as that is possible without the code. Raises SourceError."""
        try:
            return cls._read(read_json(data))
        except SourceError:
            raise
        except ToolSpecError as reason:
            raise error(str(reason)) from reason

    @classmethod
    def _read(cls, data: JsonObject) -> Self:
        version = data.get("version")
        if type(version) is not int or version != VERSION:
            raise error(
                f"its version is {quote_name(version)}, and this release reads {VERSION}. Write it again with "
                "to_dict()."
            )
        read_object(data, "", _FIELDS, _OTHER_FIELDS)
        definition = _read_definition(data)
        binds = read_binds(data["binds"])
        tool = cls(
            definition=definition,
            code=read_code(data["code"]),
            options=OptionsData.read(data["options"]),
            binds=binds,
            secret_keys=_read_secret_keys(data.get("secret_keys", []), binds),
            spec_class=None if "spec_class" not in data else read(data["spec_class"], "spec_class", str),
        )
        if digest(data) != data["digest"]:
            raise error("it was changed after it was written. Change the tool, and write it again with to_dict().")
        return tool

    def require_trust(self, trust: Trust) -> None:
        """Raise SourceError unless everything that the tool needs is trusted, imported modules included."""
        self.code.require_trust(trust)
        self.options.require_trust(trust)
        for item in self.binds:
            item.require_trust(trust)

    def load(self) -> tuple[ToolTemplate, Function]:
        """Return the template and the body of the tool. Raises SourceError."""
        try:
            options = {**self.options.load(), "binds": self._keys}
            template, body = self.build(
                self.code.load(options), options, {item.parameter: item.to_binding() for item in self.binds}
            )
            self._require_same(CompiledTool(template, template.bindings).definition)
        except SourceError:
            raise
        except ToolSpecError as reason:
            raise SourceError(f"The tool {self.definition.name!r} cannot be made from its data: {reason}") from reason
        return template, body

    @property
    def _keys(self) -> dict[str, str]:
        return {item.parameter: item.key_text for item in self.binds}

    def build(
        self, function: Function, options: Mapping[str, Any], bindings: Mapping[str, Binding]
    ) -> tuple[ToolTemplate, Function]:
        """Return the template and the body of a function with the options and bindings of the data."""
        return function_source.build_template(
            function,
            {**options, "binds": self._keys},
            docstring=self.code.docstring,
            more_bindings=bindings,
            source=self.code.source,
            source_function=self.code.source_function,
            has_types=self.code.has_types,
        )

    def _require_same(self, definition: ToolDefinition) -> None:
        if definition != self.definition:
            raise SourceError(
                f"The code of {self.definition.name!r} is not that of the data: "
                f"{describe_changes(self.definition, definition)}. Load it where the code has not changed, or write it "
                "again with to_dict()."
            )


def describe_changes(before: ToolDefinition, after: ToolDefinition) -> str:
    """Return what differs between two definitions of one tool, without values."""
    if before.name != after.name:
        return "it has another name"
    changes = definition_lock.compare([before], [after])
    reasons = (*changes.breaking.get(before.name, ()), *changes.compatible.get(before.name, ()))
    return ", ".join(reasons) or "its definition differs"


def _read_secret_keys(data: Any, binds: list[BindData]) -> frozenset[StateKey]:
    texts = [read(key, "secret_keys", str) for key in read(data, "secret_keys", list)]
    needed = {item.key.text for item in binds if item.is_secret and item.key is not None}
    if texts != sorted({*texts, *needed}):
        raise error("'secret_keys' must list the keys of all secret bindings, sorted.")
    return frozenset(map(StateKey.parse, texts))


def _read_definition(data: JsonObject) -> ToolDefinition:
    fields = read_object(data["definition"], "definition", ("name",), definition_lock.FIELDS)
    for name, value in fields.items():
        read(value, join("definition", name), definition_lock.FIELDS[name])
    try:
        definition = definition_lock.from_json(fields)
        fingerprint = definition.fingerprint
    except (TypeError, ValueError) as reason:
        raise error("its definition is malformed.") from reason
    if fingerprint != data["fingerprint"]:
        raise error(
            "its definition does not fit its fingerprint, so one of them was changed. Get the data from where it was "
            "written."
        )
    return definition


MAX_ERROR_CHARS: Final = 1000
"""The middle of a longer error is left out: it may repeat a name or a type that data has."""


def load(
    data: Any, trust: Iterable[str | os.PathLike[str]], spec_classes: Collection[str]
) -> tuple[ToolTemplate, Function, frozenset[StateKey]]:
    """Return the template and the body of a tool, and the keys that were ever bound as secret.

    `spec_classes` are the full names of the class to make and of its bases. Raises SourceError.
    """
    if trust is None:
        raise SourceError("trust is a list, because None would not say what may be run: [] trusts nothing.")
    try:
        tool = ToolData.read(data)
        if tool.spec_class is not None and tool.spec_class not in spec_classes:
            name, needed = tool.definition.name, quote_name(tool.spec_class)
            raise SourceError(f"The tool {name!r} is a {needed}: load it with from_dict of that class.")
        tool.require_trust(Trust(trust))
        return *tool.load(), tool.secret_keys
    except SourceError as error:
        if _is_plain(str(error)):
            raise
        raise SourceError(_to_plain(str(error))) from error.__cause__


def _is_plain(text: str) -> bool:
    return len(text) <= MAX_ERROR_CHARS and text.replace("\n", "").isprintable()


def _to_plain(text: str) -> str:
    """Return the text of an error without control characters that data may have brought into it, and cut."""
    half = MAX_ERROR_CHARS // 2
    shown = text if len(text) <= MAX_ERROR_CHARS else f"{text[:half]} … {text[-half:]}"
    return "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in shown)


def write(
    compiled: CompiledTool,
    body: Any,
    state: Mapping[str, Any],
    secrets: Iterable[StateKey],
    *,
    spec_class: str | None,
    with_values: bool,
) -> JsonObject:
    """Return the data of a tool. Raises ToolSpecError, with the fix, for a part that is not data."""
    definition, keys = compiled.definition, secret_keys(compiled, secrets)
    data: JsonObject = {
        "version": VERSION,
        "definition": definition_lock.to_json(definition),
        "fingerprint": definition.fingerprint,
        "code": write_code(compiled.template, body),
        "options": write_options(compiled),
        "binds": write_binds(compiled, state, keys, with_values=with_values),
    }
    if keys:
        data["secret_keys"] = sorted(key.text for key in keys)
    if spec_class is not None:
        data["spec_class"] = spec_class
    data = json.loads(json.dumps(data))
    data["digest"] = digest(data)
    _require_complete(data, compiled, body)
    return data


def _require_complete(data: JsonObject, compiled: CompiledTool, body: Any) -> None:
    """Raise ToolSpecError if the data gives another tool, as for types that only the defining function knows."""
    tool = ToolData.read(data)
    name, bindings = compiled.template.name, {item.parameter: item.to_binding() for item in tool.binds}
    try:
        template, _ = tool.build(function_of(body), tool.options.load(), bindings)
        again = CompiledTool(template, template.bindings).definition
    except ToolSpecError as error:
        raise ToolSpecError(f"{name!r} cannot be made from data again: {error}") from error
    if again != compiled.definition:
        raise ToolSpecError(
            f"{name!r} would be another tool: {describe_changes(compiled.definition, again)}. Pass as "
            "options what its function does not say itself, such as the description."
        )
