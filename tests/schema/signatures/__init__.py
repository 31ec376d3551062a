"""The corpus: callables with telling signatures. `SIGNATURES` holds what FastMCP takes, `REFUSED` what it does not,
`WRONGLY_ACCEPTED` what it takes and then cannot call.

Most rooms do without `from __future__ import annotations`, so that annotations are objects there and strings in the
room that is named after it. What a function does is of no interest; most have no body.
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

ROOMS = (
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
    identity: function for room in ROOMS for identity, function in room.SIGNATURES.items()
}
REFUSED: dict[str, Callable[..., Any]] = refused.SIGNATURES
WRONGLY_ACCEPTED = refused.WRONGLY_ACCEPTED
