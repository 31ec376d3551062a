"""What the parsing process writes besides its replies."""

from __future__ import annotations

READY = "ready"
"""The first line: the process has started, so that a later end is the fault of a file."""
