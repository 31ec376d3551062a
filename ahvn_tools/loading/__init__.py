"""Where tools are found: Python files and modules, folders, code, MCP servers, HTTP and OpenAPI.

Each sibling reads one kind of source: `read(location, options) -> Contents`. `kinds` chooses the sibling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ahvn_tools.lazy import lazy_names

if TYPE_CHECKING:
    from ahvn_tools.loading.contents import Contents
    from ahvn_tools.loading.kinds import read_source
    from ahvn_tools.loading.read_options import ReadOptions
    from ahvn_tools.sources.yaml_file import read_yaml
    from ahvn_tools.trust import Trust

__all__ = ["Contents", "ReadOptions", "Trust", "read_source", "read_yaml"]

__getattr__ = lazy_names(__name__, {  # a plain file is read without YAML
    "Contents": ".contents", "ReadOptions": ".read_options", "Trust": "ahvn_tools.trust", "read_source": ".kinds",
    "read_yaml": "ahvn_tools.sources.yaml_file",
})  # fmt: skip
