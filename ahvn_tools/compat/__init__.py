"""Facades: other tool systems under their own names, on top of the public interface of this package.

Each module or package here is one system, and imports none of the others. The pages in `docs/migrating/` list what
behaves the same, what is fixed and what differs.
"""
