"""Imports the Python files and modules that sources name, each once, with errors that say where the mistake is."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Iterator
from functools import partial
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from traceback import extract_tb
from types import CodeType, ModuleType
from typing import Final

from ahvn_tools.errors import SourceError
from ahvn_tools.execution.pickling import pickle_by_value
from ahvn_tools.loading.kinds import unknown_kind
from ahvn_tools.loading.read_options import ReadOptions
from ahvn_tools.mcp.server.standard_streams import redirect_descriptor
from ahvn_tools.trust import SOURCE_FOLDERS, require_all

_PACKAGE: Final = Path(__file__).parents[1]

_PREFIX: Final = "_loaded_"
"""The prefix of the module name of a file that cannot be imported under its own name."""

_lock = threading.RLock()
"""Held while a module is imported: `sys.path` and the standard streams are those of the process."""


def import_file(file: Path, options: ReadOptions, shown: str) -> ModuleType:
    """Return the module of a file, which is imported once. Raises SourceError; `shown` is how errors name the file.

    A file in a package (a folder with an `__init__.py`) is imported as a part of it. A file whose name another module
    has gets a name of its own.
    """
    if file.suffix != ".py":
        raise unknown_kind(shown)
    file = file.resolve()
    if not file.is_file():
        raise SourceError(f"There is no file {shown!r}.", file=shown)
    require_trusted_file(file, options, shown)
    packages = _find_packages(file)
    root = packages[0].parent if packages else file.parent
    with _importing(shown, root), _search_early(root):
        return _import_from(root, file)


def require_trusted_file(file: Path, options: ReadOptions, shown: str) -> None:
    """Raise SourceError unless a file may be imported, with the packages that it is in."""
    packages = (
        partial(options.trust.require_file, folder / "__init__.py") for folder in _find_packages(file.resolve())
    )
    require_all([partial(options.trust.require_file, file, shown), *packages])


def require_trusted_module(name: str, options: ReadOptions) -> None:
    """Raise SourceError unless a module may be imported. Nothing is imported to find out."""
    folder = options.folder.resolve()
    options.trust.require_module(name, folder)
    with contextlib.suppress(ValueError):  # a module without a spec, such as `__main__`
        if not options.trust.trusts_file(folder) and importlib.util.find_spec(name.partition(".")[0]) is None:
            raise _no_installed_module(name, options)


def _no_installed_module(name: str, options: ReadOptions) -> SourceError:
    thing = f"{name!r} is no installed module, and the folder of the source"
    return options.trust.refusal(thing, options.folder.resolve())


def import_module(name: str, options: ReadOptions) -> ModuleType:
    """Return a module that is installed or, if there is none, in the folder of the options. Raises SourceError.

    The folder is searched only if all files in it are trusted, not because the name of the module is.
    """
    folder = options.folder.resolve()
    options.trust.require_module(name, folder)
    is_searched = options.trust.trusts_file(folder)
    with _importing(name, folder), _search_last(folder) if is_searched else contextlib.nullcontext():
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise
            if not is_searched:
                raise _no_installed_module(name, options) from None
            raise SourceError(f"There is no file and no module {name!r}, neither installed nor in {folder}.") from None


def own_name(module: ModuleType) -> str:
    """Return the last part of the name of a module, as its author knows it."""
    stem = module.__name__.rpartition(".")[2]
    file = getattr(module, "__file__", None)
    return Path(file).stem if stem.startswith(_PREFIX) and file else stem


@contextlib.contextmanager
def running_code_of(name: str, folder: Path | None = None) -> Iterator[None]:
    """Run code of a source: what it prints goes to stderr, and what it raises becomes a SourceError with the line."""
    folder = folder or Path.cwd()
    try:
        with _protected_standard_streams():
            yield
    except SourceError:
        raise
    except SystemExit as error:
        file, line = _locate(error, folder)
        raise SourceError(f"{name} exited while it was loaded{_place(file, line)}.", file=name, line=line) from error
    except Exception as error:
        file, line = _locate(error, folder)
        message = error.msg if isinstance(error, SyntaxError) else error
        raise SourceError(
            f"{name} cannot be loaded: {type(error).__name__}: {message}{_place(file, line)}", file=name, line=line
        ) from error


@contextlib.contextmanager
def _importing(name: str, folder: Path) -> Iterator[None]:
    with _lock:
        importlib.invalidate_caches()  # a file may be newer than the last look at its folder
        with running_code_of(name, folder):
            yield


@contextlib.contextmanager
def _search_early(folder: Path) -> Iterator[None]:
    """Search a folder before what is installed, and afterwards after it, because functions may import, too.

    The standard library is first, so that a file such as `email.py` does not break the modules that import that.
    """
    if str(folder) in sys.path:
        yield
        return
    installed = (index for index, entry in enumerate(sys.path) if entry.endswith(("site-packages", "dist-packages")))
    SOURCE_FOLDERS.add(folder)
    sys.path.insert(next(installed, len(sys.path)), str(folder))
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # a module may change `sys.path` itself
            sys.path.remove(str(folder))
        sys.path.append(str(folder))


@contextlib.contextmanager
def _search_last(folder: Path) -> Iterator[None]:
    if str(folder) not in sys.path:
        SOURCE_FOLDERS.add(folder)
        sys.path.append(str(folder))
    yield


def _find_packages(file: Path) -> list[Path]:
    """Return the folders of the packages that a file is in, outermost first."""
    packages: list[Path] = []
    for folder in file.parents:
        if not (folder.name.isidentifier() and (folder / "__init__.py").is_file()):
            break
        packages.insert(0, folder)
    return packages


def _import_from(root: Path, file: Path) -> ModuleType:
    """Import a file, after the packages around it, under its own name if that name leads to it, else under another one.

    Each is loaded from its own path, because Python prefers a folder or an extension module of the same name.
    """
    relative = file.relative_to(root).with_suffix("")
    parts = relative.parent.parts if relative.name == "__init__" else relative.parts
    is_package = len(parts) > 1 or relative.name == "__init__"
    top = root / parts[0] / "__init__.py" if is_package else file
    name, is_own = parts[0], _leads_to(parts[0], top)
    if not is_own:
        name = f"{_PREFIX}{_to_identifier(parts[0])}_{hashlib.sha256(os.fsencode(top)).hexdigest()[:8]}"
    module = _load(name, top, is_package=is_package)
    if not is_own:
        pickle_by_value(module)  # no other process can import that name
    for count in range(2, len(parts) + 1):
        package, inner = module, root.joinpath(*parts[:count])
        name = f"{name}.{parts[count - 1]}"
        is_package = count < len(parts) or relative.name == "__init__"
        module = _load(name, inner / "__init__.py" if is_package else file, is_package=is_package)
        setattr(package, parts[count - 1], module)
    return module


class _TextLoader(SourceFileLoader):
    """Compiles the text of a file: the bytecode beside it may be that of another text."""

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002  # the signature of a loader
        """Return the code of the file."""
        code: CodeType = self.source_to_code(self.get_data(self.path), self.path)
        return code


def _leads_to(name: str, file: Path) -> bool:
    """Return whether the import of a name gives this file. A name without dots: nothing is imported to find out."""
    if not name.isidentifier():
        return False
    try:
        spec = importlib.util.find_spec(name)
    except ValueError:  # a module in `sys.modules` without a spec, such as `__main__`
        return False
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve() == file.resolve()


def _load(name: str, file: Path, *, is_package: bool) -> ModuleType:
    """Import a file under a name. Raises SourceError if another file has the name already."""
    if name in sys.modules:
        module = sys.modules[name]
        if Path(getattr(module, "__file__", None) or "").resolve() != file.resolve():
            raise SourceError(f"Another file has the name {name!r}: rename {file.name}.", file=str(file))
        return module
    loader = _TextLoader(name, str(file))
    spec = ModuleSpec(name, loader, origin=str(file), is_package=is_package)
    spec.has_location = True
    if is_package:
        spec.submodule_search_locations = [str(file.parent)]
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # pydantic and pickle look up there what a module defines
    try:
        loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return sys.modules.get(name, module)  # a module may replace itself


def _to_identifier(name: str) -> str:
    return "".join(char if char.isalnum() else "_" for char in name)


@contextlib.contextmanager
def _protected_standard_streams() -> Iterator[None]:
    """Write nothing to stdout and read nothing from stdin: over stdio they belong to the client."""
    with _lock, contextlib.ExitStack() as streams:
        _flush_stdout()
        with contextlib.suppress(OSError):  # a process may have no standard streams
            empty = streams.enter_context(Path(os.devnull).open())
            streams.enter_context(redirect_descriptor(0, to=empty.fileno()))
            streams.enter_context(redirect_descriptor(1, to=2))
        try:
            yield
        finally:
            _flush_stdout()


def _flush_stdout() -> None:
    with contextlib.suppress(AttributeError, OSError, ValueError):  # it may be None, or closed
        sys.stdout.flush()


def _locate(error: BaseException, folder: Path) -> tuple[str | None, int | None]:
    """Return the file and line of an error: the innermost ones in the user's folder."""
    if isinstance(error, SyntaxError) and error.filename:
        return Path(error.filename).name, error.lineno
    frames = [frame for frame in extract_tb(error.__traceback__) if _is_user_file(Path(frame.filename), folder)]
    return (Path(frames[-1].filename).name, frames[-1].lineno) if frames else (None, None)


def _place(file: str | None, line: int | None) -> str:
    return "" if file is None else f" ({file}, line {line})"


def _is_user_file(file: Path, folder: Path) -> bool:
    return file.is_relative_to(folder) and not file.is_relative_to(_PACKAGE) and "site-packages" not in file.parts
