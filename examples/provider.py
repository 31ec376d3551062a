"""What the examples of the SDKs share: the SDK or a hint, the address of the service, and how a call is run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from loopback import Loopback

from ahvn_tools import ToolCall, ToolResult, ToolSpec
from ahvn_tools.results import ErrorDetail


@contextmanager
def needed(extra: str) -> Iterator[None]:
    """Leave with the command that installs an SDK when its import fails."""
    try:
        yield
    except ModuleNotFoundError:
        sys.exit(f'This example needs an SDK: pip install "ahvn-tools[{extra}]"')


@contextmanager
def address(service: str, *variables: str, **arguments: Any) -> Iterator[str | None]:
    """Give None, the SDK's own default, when a key is set; else the address of a server that plays the service.

    The model that is played calls a tool once, with these arguments.
    """
    if any(map(os.environ.get, variables)):
        yield None
        return
    with Loopback(arguments) as server:
        yield server.url(service)


def run(spec: ToolSpec, call: ToolCall) -> tuple[ToolCall, ToolResult]:
    """Return a call with its result; a call that could not be read gets to know what is wrong with it."""
    if call.error is not None:
        return call, ToolResult(error=ErrorDetail(code="invalid_parameters", message=call.error))
    return call, spec.exec(**call.arguments)
