"""Sub-agents: a model splits its task, and runs several agents on the parts at once."""

from __future__ import annotations

from ahvn_tools.builtins.sub_agents.group import Runner, SubAgentRequest, SubAgentTask
from ahvn_tools.builtins.sub_agents.tools import SubAgents

__all__ = ["Runner", "SubAgentRequest", "SubAgentTask", "SubAgents"]
