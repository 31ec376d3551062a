"""Facades: other tool systems under their own names, on top of the public interface of this package.

Each module or package here is one system, and imports none of the others. `docs/migrating.md` and its pages list what
behaves the same, what is fixed and what differs.
"""
