"""The rows of the comparison."""

from __future__ import annotations

from tests.benchmarks.peers.rows import Row

IN_PROCESS, SERVED, OTHER = ("A program in this process", "A program over MCP", "First programs and many programs")
PROGRAMS = 20
"""How many programs run in a round."""
ROWS = (
    Row(name="three", title="3 calls", group=IN_PROCESS, number=PROGRAMS),
    Row(name="twenty", title="20 calls", group=IN_PROCESS, number=PROGRAMS),
    Row(name="gathered", title="20 calls at once", group=IN_PROCESS, number=PROGRAMS),
    Row(name="stdio_three", title="stdio, 3 calls", group=SERVED, number=PROGRAMS),
    Row(name="stdio_twenty", title="stdio, 20 calls", group=SERVED, number=PROGRAMS),
    Row(name="http_three", title="HTTP, 3 calls", group=SERVED, number=PROGRAMS),
    Row(name="http_twenty", title="HTTP, 20 calls", group=SERVED, number=PROGRAMS),
    Row(name="first", title="import to the end of the first program", group=OTHER, number=1, rounds=7),
    Row(name="thousand", title="1,000 programs of 50 sessions at once", group=OTHER, number=1, rounds=3),
)
