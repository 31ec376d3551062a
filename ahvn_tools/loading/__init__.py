"""Where tools are found: Python files and modules, folders, packages, code, MCP servers, OpenAPI and definition files.

Each sibling reads one kind of source: `read(location, options) -> Contents`. `kinds` chooses the sibling.
"""

from ahvn_tools.loading.definition_file import to_seconds

__all__ = ["to_seconds"]
