"""Cache: the results of tools, kept for a while."""

from ahvn_tools.middleware.cache.middleware import cache

__all__ = ["cache"]
