"""Middleware as items of a manifest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ahvn_tools.execution.call import Middleware
from ahvn_tools.json_types import JsonObject
from ahvn_tools.manifest.dumping.import_paths import object_path
from ahvn_tools.manifest.dumping.problems import UndumpableError
from ahvn_tools.manifest.middleware_table import to_item
from ahvn_tools.middleware.factory import factory_call


def to_items(layers: Sequence[Middleware], folder: Path) -> list[str | JsonObject]:
    """Return the items of a manifest that make such middleware. Raises UndumpableError."""
    return [_to_item(layer, folder) for layer in layers]


def _to_item(layer: Middleware, folder: Path) -> str | JsonObject:
    if factory_call(layer) is not None:
        return to_item(layer, folder)
    name = getattr(layer, "__qualname__", type(layer).__qualname__)
    try:
        return object_path(layer)
    except UndumpableError as error:
        raise UndumpableError(f"{name!r}: {error}") from None
