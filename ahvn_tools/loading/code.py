"""Python code as a source: a text with more than one line."""

from __future__ import annotations

import hashlib
import sys
import textwrap

from ahvn_tools.errors import SourceError
from ahvn_tools.execution.pickling import pickle_by_value
from ahvn_tools.loading import members
from ahvn_tools.loading.contents import Contents
from ahvn_tools.loading.module_import import running_code_of
from ahvn_tools.loading.options import ReadOptions
from ahvn_tools.sources.code import find_functions, new_module

_NAME = "code"


def read(location: str, options: ReadOptions) -> Contents:
    """Return what code defines: as a file would, or all of its public functions if there is no tool among it.

    The code can do whatever this process can do. The same text is run once. Raises SourceError.
    """
    options.trust.require_code()
    code = textwrap.dedent(location)
    name = f"_loaded_code_{hashlib.sha256(code.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
    with running_code_of(_NAME):
        if name not in sys.modules:
            _run(name, code)
    module = sys.modules[name]
    contents = members.read_module(module, _NAME)
    if not contents.is_empty:
        return Contents(name=_NAME, toolkit=contents.toolkit, tools=contents.tools, servers=contents.servers)
    functions = find_functions(module)
    if not functions:
        raise SourceError("The code defines no tool and no function: write one with `def` or `async def`.")
    return members.read_object(functions, _NAME, "The code")


def _run(name: str, code: str) -> None:
    module = new_module(code, name)
    sys.modules[name] = module  # pydantic looks up there what a module defines
    try:
        exec(compile(code, f"{name}.py", "exec", dont_inherit=True), vars(module))  # noqa: S102  # the purpose
    except BaseException:
        del sys.modules[name]
        raise
    pickle_by_value(module)
