"""JsonObject: the type of a JSON object in Python."""

from __future__ import annotations

from typing import Any

JsonObject = dict[str, Any]
