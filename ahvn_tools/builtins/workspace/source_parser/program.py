"""The parsing process: reads files from stdin and writes one line of JSON for each to stdout.

It runs without the packages of the host (`python -I -S`), so its modules import each other relatively, and besides them
only the standard library and what the task needs.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
from typing import Any, BinaryIO

from . import data_source, python_source, tree_source
from .languages import BY_NAME
from .problems import SyntaxProblem
from .protocol import READY

_DATA = {
    "JSON": data_source.json_problems,
    "TOML": data_source.toml_problems,
    "YAML": data_source.yaml_problems,
}


def main(stdin: BinaryIO, stdout: BinaryIO, seconds: float) -> None:
    """Write READY, then answer each file: a line of JSON with `task`, `language` and `size`, and that many bytes.

    The process ends if one file takes longer than `seconds`.
    """
    stdout.write(READY.encode() + b"\n")
    stdout.flush()
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - one module less to import
        while header := stdin.readline():
            request = json.loads(header)
            content = stdin.read(request["size"])
            faulthandler.dump_traceback_later(seconds, exit=True, file=nowhere)
            reply = _answer(request["task"], request["language"], content)
            faulthandler.cancel_dump_traceback_later()
            stdout.write(json.dumps(reply).encode() + b"\n")
            stdout.flush()


def _answer(task: str, language: str, content: bytes) -> dict[str, Any]:
    try:
        return _outline(language, content) if task == "outline" else {"problems": _problems(language, content)}
    except SyntaxError as error:
        place = f" in line {error.lineno}" if error.lineno else ""
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        return {"reason": f"not valid Python {version}: {error.msg}{place}"}
    except UnicodeDecodeError:
        return {"reason": "not a UTF-8 text"}
    except (RecursionError, MemoryError):
        return {"reason": "nested too deeply to parse"}
    except ValueError as error:  # pragma: no cover - a NUL byte before Python 3.11.4, a grammar of another version
        return {"reason": f"cannot be parsed: {error}"}


def _outline(language: str, content: bytes) -> dict[str, Any]:
    is_python = language == "Python"
    definitions = python_source.outline(content) if is_python else tree_source.outline(content, BY_NAME[language])
    return {"definitions": definitions.found, "is_complete": definitions.is_complete}


def _problems(language: str, content: bytes) -> list[SyntaxProblem]:
    if language == "Python":
        return list(python_source.problems(content))
    if language in _DATA:
        return list(_DATA[language](content))
    return list(tree_source.problems(content, BY_NAME[language]))
