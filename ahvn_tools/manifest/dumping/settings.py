"""The settings of a toolkit as a manifest has them: limits, approval, middleware, search."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ahvn_tools.binding import Binding
from ahvn_tools.json_types import JsonObject
from ahvn_tools.manifest.dumping.import_paths import object_path
from ahvn_tools.manifest.dumping.middleware import to_items
from ahvn_tools.manifest.dumping.problems import Problems, UndumpableError
from ahvn_tools.manifest.model import Manifest
from ahvn_tools.roots import shown_path
from ahvn_tools.spec import ToolSpec
from ahvn_tools.toolkit.approval_options import DEFAULT_EXPIRY
from ahvn_tools.toolkit.approval_store import MemoryApprovalStore
from ahvn_tools.toolkit.store import ToolStore
from ahvn_tools.toolkit.visibility import StoreView


def to_settings(view: StoreView, folder: Path, problems: Problems) -> JsonObject:
    """Return the settings that are not the default of a manifest."""
    store = view.store
    with problems.of("`spec_class`"):
        if store.spec_class is not ToolSpec:
            raise UndumpableError("a manifest makes plain ToolSpecs: leave it out")
    settings: JsonObject = {
        "on_duplicate": store.on_duplicate,
        "timeout": store.timeout,
        "middleware_timeout": store.middleware_timeout,
        "max_concurrency": store.max_concurrency,
        "max_background": store.max_background,
        "strict": store.finding_log.is_strict,
        "mask_errors": store.masks_errors,
        "output": store.output,
        "roots": None if view.roots is None else [to_path(shown_path(root, [root]), folder) for root in view.roots],
        "approval": _to_approval(store, folder, problems),
        "middleware": [],
    }
    with problems.of("the toolkit's middleware"):
        settings["middleware"] = to_items(store.middleware, folder)
    fields = Manifest.model_fields
    return {name: value for name, value in settings.items() if value != fields[name].default}


def to_path(path: Path | str, folder: Path) -> str:
    """Return a path as a manifest in this folder says it."""
    path = Path(path)
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)


def _to_approval(store: ToolStore, folder: Path, problems: Problems) -> JsonObject | None:
    approval: JsonObject = {}
    if store.approver is not None:
        with problems.of("the approver"):
            approval["approver"] = object_path(store.approver)
    with problems.of("the `secret_key` of the toolkit"):
        if not store.secret_key.is_random:
            raise UndumpableError("it is a secret: load the manifest with approval: {secret_key: ${VARIABLE}}")
    with problems.of("the approval store"):
        if (path := getattr(store.approval_store, "path", None)) is not None:
            approval["store"] = to_path(path, folder)
        elif not isinstance(store.approval_store, MemoryApprovalStore):
            raise UndumpableError("it is an object: pass the path of a file as `approval_store`")
    if store.approval_expiry != DEFAULT_EXPIRY:
        approval["expiry"] = store.approval_expiry
    return approval or None


def to_binds(bindings: Mapping[str, Binding], problems: Problems) -> JsonObject:
    """Return the bindings of a toolkit, without their defaults: these are values."""
    binds: JsonObject = {}
    for name, binding in bindings.items():
        with problems.of(f"the binding of {name!r}"):
            if binding.resolver is not None or binding.key is None:
                raise UndumpableError("it has a resolver, which is a function: bind it to a state key")
            key = binding.key.text
            binds[name] = {"key": key, "secret": True} if binding.is_secret else key
    return binds
