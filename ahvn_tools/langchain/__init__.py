"""Tools of this package as tools of LangChain, whose class is `BaseTool`. Needs the extra `langchain`."""

from __future__ import annotations

from ahvn_tools.langchain.spec_tool import BaseTool, SpecTool

__all__ = ["BaseTool", "SpecTool"]
