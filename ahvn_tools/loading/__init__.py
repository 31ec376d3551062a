"""Where tools are found: Python files and modules, folders, packages, code, MCP servers, OpenAPI and definition files.

Each sibling reads one kind of source: `read(location, options) -> Contents`. `kinds` chooses the sibling.
"""
