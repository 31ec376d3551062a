"""AgentScope's toolkit on the toolkit of this package: the same import paths below this package."""

from __future__ import annotations

from ahvn_tools.compat.agentscope import mcp, message, module, tool, tracing, types
from ahvn_tools.compat.agentscope.mcp import *  # noqa: F403  # each module says what it exports
from ahvn_tools.compat.agentscope.message import *  # noqa: F403
from ahvn_tools.compat.agentscope.module import *  # noqa: F403
from ahvn_tools.compat.agentscope.tool import *  # noqa: F403
from ahvn_tools.compat.agentscope.tracing import *  # noqa: F403
from ahvn_tools.compat.agentscope.types import *  # noqa: F403

__all__ = mcp.__all__ + message.__all__ + module.__all__ + tool.__all__ + tracing.__all__ + types.__all__
