"""The checkers that `get_warning_error` runs, one module for each.

All of them only read the source files. None may execute code of the project, load its plugins or run its programs. That
is why these are missing: ESLint and Babel (configuration is code), Cargo and rustup (build scripts, and toolchains that
the project names), `go vet` (cgo, toolchains), `perl -c` (BEGIN blocks), Make, Gradle and Maven.
"""

from __future__ import annotations

from ahvn_tools.builtins.workspace.diagnostics.checker import Checker
from ahvn_tools.builtins.workspace.diagnostics.checkers import bash, gcc, javac, mypy, node, pyright, ruff

CHECKERS: tuple[Checker, ...] = (
    ruff.CHECKER,
    node.CHECKER,
    bash.CHECKER,
    javac.CHECKER,
    gcc.CHECKER,
    pyright.CHECKER,
    mypy.CHECKER,
)
