"""Encoders: how values of other libraries' classes become JSON or content.

`registry.py` knows which encoder a value has, those of the host first. `libraries.py` has the built-in ones, and
imports no library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ahvn_tools.lazy import lazy_names

if TYPE_CHECKING:
    from ahvn_tools.encoders.registry import register_encoder

__all__ = ["register_encoder"]

__getattr__ = lazy_names(__name__, {"register_encoder": ".registry"})  # most tools return plain data
