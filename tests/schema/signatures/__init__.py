"""The corpus: callables with all kinds of signatures. FastMCP accepts those in `SIGNATURES` and refuses those in
`REFUSED`; those in `WRONGLY_ACCEPTED` it accepts although it cannot call them.

Most modules do not import `annotations` from `__future__`, so that annotations are objects; in `future_annotations`
they are strings. The bodies do not matter; most functions have none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.schema.signatures import (
    annotated,
    callables,
    containers,
    defaults,
    docstrings_epydoc,
    docstrings_google,
    docstrings_numpy,
    docstrings_sphinx,
    enums,
    future_annotations,
    generics,
    injection,
    models,
    own_types,
    parameters,
    recursive,
    refused,
    returns,
    scalars,
    standard_types,
    streams,
)

MODULES = (
    scalars,
    containers,
    standard_types,
    enums,
    annotated,
    parameters,
    defaults,
    models,
    recursive,
    generics,
    returns,
    streams,
    callables,
    future_annotations,
    injection,
    docstrings_google,
    docstrings_numpy,
    docstrings_sphinx,
    docstrings_epydoc,
    own_types,
)

SIGNATURES: dict[str, Callable[..., Any]] = {
    identity: function for module in MODULES for identity, function in module.SIGNATURES.items()
}
REFUSED: dict[str, Callable[..., Any]] = refused.SIGNATURES
WRONGLY_ACCEPTED = refused.WRONGLY_ACCEPTED
