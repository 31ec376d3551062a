"""Knowledge: tools over documents and notes with full text search, for many users at once."""

from __future__ import annotations

from ahvn_tools.builtins.knowledge.knowledge import Hit, Knowledge, Passage, Stats

__all__ = ["Hit", "Knowledge", "Passage", "Stats"]
