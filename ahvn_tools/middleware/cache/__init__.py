"""Cache: results that answer equal calls for a limited time."""

from ahvn_tools.middleware.cache.middleware import cache

__all__ = ["cache"]
