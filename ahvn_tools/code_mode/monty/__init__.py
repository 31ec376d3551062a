"""Programs in Monty, a Python interpreter without files, network and environment (extra `code`)."""

from __future__ import annotations

import importlib.util

from ahvn_tools.after_fork import CAN_FORK
from ahvn_tools.errors import DefinitionError

if importlib.util.find_spec("pydantic_monty") is None:
    raise DefinitionError('Code mode needs Monty: pip install "ahvn-tools[code]"')

if not CAN_FORK:
    raise DefinitionError("Monty's sandbox needs a system with `fork`: Linux or macOS.")

from ahvn_tools.code_mode.monty.sandbox import MontySandbox

__all__ = ["MontySandbox"]
