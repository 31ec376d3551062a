"""Lint: what a model, a provider or a reader would stumble over in the definitions of tools.

`lint(definitions)` returns findings, each with the name of its rule; `RULES` describes the rules. `Toolkit.lint()` adds
the findings of `Toolkit.check()`.
"""

from __future__ import annotations

from ahvn_tools.lint.linter import lint
from ahvn_tools.lint.providers import Verdict, verdicts
from ahvn_tools.lint.rules import RULES, Rule

__all__ = ["RULES", "Rule", "Verdict", "lint", "verdicts"]
