"""Values: how many there are in a JSON message, told from its bytes: reading millions stops the event loop."""

from __future__ import annotations


class JsonValueCounter:
    """Counts values as the bytes of a message come: its brackets and commas, those in strings left out."""

    def __init__(self) -> None:
        self.count = 0
        self._is_in_string = False
        self._escape = b""

    def add(self, chunk: bytes) -> int:
        """Go on with the next bytes, and return how many values there were so far; it may be a few too many."""
        chunk = self._escape + chunk
        self._escape = b"\\" if (len(chunk) - len(chunk.rstrip(b"\\"))) % 2 else b""
        whole = chunk[: len(chunk) - len(self._escape)].replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = whole.split(b'"')
        outside = b"".join(parts[int(self._is_in_string) :: 2])
        self.count += outside.count(b",") + outside.count(b"[") + outside.count(b"{")
        self._is_in_string ^= len(parts) % 2 == 0
        return self.count
