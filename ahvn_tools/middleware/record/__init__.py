"""Record and replay: calls and their results, written to a file and served from it."""

from ahvn_tools.middleware.record.middleware import record, replay

__all__ = ["record", "replay"]
