"""Print a mark after a program whose value is hashed for ever. Run it as a module, in a process of its own."""

from __future__ import annotations

from ahvn_tools import Toolkit
from ahvn_tools.code_mode import CodeLimits

CODE = "a = ('x',)\nfor _ in range(60):\n    a = (a, a)\n{a: 1}"

if __name__ == "__main__":
    kit = Toolkit("host").add_code_mode(limits=CodeLimits(seconds=0.2))
    kit.exec("run_code", {"code": CODE}, timeout=2)
    print("alive")
