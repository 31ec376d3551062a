"""Record: calls and their results, written to a file and replayed from it."""

from ahvn_tools.middleware.record.middleware import record, replay

__all__ = ["record", "replay"]
