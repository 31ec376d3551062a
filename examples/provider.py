"""Shared by the examples of the SDKs: a hint when an SDK is missing, the address of the service."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from loopback import Loopback


@contextmanager
def require_sdk(extra: str) -> Iterator[None]:
    """Exit with the command that installs an SDK if its import fails."""
    try:
        yield
    except ModuleNotFoundError:
        sys.exit(f'This example needs an SDK: pip install "ahvn-tools[{extra}]"')


@contextmanager
def service_url(
    service: str, *variables: str, turns: Sequence[tuple[str, dict[str, Any]]] = (), **arguments: Any
) -> Iterator[str | None]:
    """Yield None, for the SDK's default, if a key is set; otherwise the address of a local server.

    The local server imitates the service. Its model calls a tool once, with these arguments, or makes the calls of
    `turns`: pairs of a name and arguments, one in each answer.
    """
    if any(map(os.environ.get, variables)):
        yield None
        return
    with Loopback(arguments, turns=turns) as server:
        yield server.url(service)
