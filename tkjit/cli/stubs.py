"""``stubs``: writes type stubs for editors and type checkers."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tokenize
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from tkjit.errors import SpecError, TkjitError
from tkjit.kernel_objects import Kernel, find, kernels, kernels_named
from tkjit.kernel_objects.host import HostKernel
from tkjit.render.stubs import MARK, render_module_stub, render_package_stub

SEARCHED = Path("typings")  # pyright looks for stubs here; for mypy, the directory has to be in mypy_path


def register(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("stubs", help="write type stubs for tkjit.load, or for a module that defines kernels")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="kernels, packages or FILE.py to include (default: all kernels)"
    )
    parser.add_argument(
        "--module",
        action="append",
        default=[],
        metavar="MODULE",
        help="write the stub of this module, given by its name or FILE.py; may be repeated",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help=f"directory to write to (default: {SEARCHED}, or next to the module)",
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a stub is missing or outdated")
    parser.set_defaults(run=_stubs)


def _stubs(arguments: argparse.Namespace) -> int:
    if arguments.names and arguments.module:
        raise SpecError("a module's stub has all of its kernels; pass either names or --module")
    if arguments.module:
        stubs = dict(_module_stub(module, arguments.output) for module in arguments.module)
    else:
        names = kernels_named(arguments.names) or _described_kernels()
        stubs = dict([_package_stub(names, arguments.output or SEARCHED)])
    outdated = {path: text for path, text in stubs.items() if _content(path) != text}
    if arguments.check:
        for path in outdated:
            print(f"{path} is missing or outdated; write it with python -m tkjit stubs", file=sys.stderr)
        return 1 if outdated else 0
    _write(outdated)
    for path in stubs:
        print(path if path in outdated else f"{path} (unchanged)")
    return 0


def _described_kernels() -> list[str]:
    """Return all kernels except each ``HostKernel``, which has no spec. Skip broken kernels with a notice."""
    names = []
    for name in kernels():
        try:
            names += [] if isinstance(find(name), HostKernel) else [name]
        except TkjitError as error:
            print(f"tkjit: skipping {name}: {error}", file=sys.stderr)
    return names


def _package_stub(names: Sequence[str], directory: Path) -> tuple[Path, str]:
    """Return the path and the text of tkjit's own stub."""
    import tkjit

    source = _source(Path(tkjit.__file__))
    return directory / "tkjit/__init__.pyi", render_package_stub(source, {name: find(name).specs for name in names})


def _module_stub(given: str, directory: Path | None) -> tuple[Path, str]:
    """Return the path and the text of a stub for a module that defines kernels."""
    module = _import_module(given)
    path = Path(given if given.endswith(".py") else str(module.__file__))
    if directory is not None:
        below = Path(*module.__name__.split("."))
        path = directory / (below / path.name if path.name == "__init__.py" else below.with_suffix(".py"))
    kernels_there = {name: value for name, value in vars(module).items() if isinstance(value, Kernel)}
    own = {name: value.specs for name, value in kernels_there.items() if not isinstance(value, HostKernel)}
    try:
        return path.with_suffix(".pyi"), render_module_stub(_source(Path(str(module.__file__))), own)
    except SpecError as error:
        raise SpecError(f"{given}: {error}") from None


def _import_module(given: str) -> ModuleType:
    """Import a module, given its name or its file."""
    path = Path(given) if given.endswith(".py") else None
    if path is not None and not path.is_file():
        raise SpecError(f"there is no file {path}")
    name, root = _name_and_root(path) if path else (given, Path.cwd())
    try:
        with _search_also(root):
            module = importlib.import_module(name)
    except TkjitError:
        raise
    except (Exception, SystemExit) as error:  # the module's code may raise anything
        raise SpecError(f"{given} cannot be imported: {type(error).__name__}: {error}") from error
    file = getattr(module, "__file__", None) or ""
    if path is not None and not (file and path.samefile(file)):
        raise SpecError(f"{given} cannot be imported: {name} is {file or 'a built-in module'}")
    if not file.endswith(".py"):
        raise SpecError(f"{given} has no Python source")
    return module


def _name_and_root(path: Path) -> tuple[str, Path]:
    """Return the name under which a file is imported, and the directory that contains its top-level package."""
    path = path.absolute()
    parts = [] if path.name == "__init__.py" else [path.stem]
    root = path.parent
    while (root / "__init__.py").is_file():
        parts.insert(0, root.name)
        root = root.parent
    return ".".join(parts), root


@contextmanager
def _search_also(root: Path | None) -> Iterator[None]:
    """Put a directory at the front of ``sys.path`` while the context is open."""
    before = sys.path[:]
    sys.path[:0] = [str(root)] if root else []
    try:
        yield
    finally:
        sys.path[:] = before


def _source(path: Path) -> str:
    with tokenize.open(path) as file:  # in the encoding that the file declares
        return file.read()


def _content(path: Path) -> str | None:
    """Return the current text of a stub file, or None if the file does not exist.

    Raises
    ------
    SpecError
        If the file cannot be read, or was not written by this command.
    """
    try:
        content = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"cannot read {path}: {error}") from None
    if not content.startswith(MARK.partition(";")[0]):
        raise SpecError(f"{path} was not written by this command; move it away first")
    return content


def _write(stubs: dict[Path, str]) -> None:
    """Write all files, or none if an error occurs."""
    staged: list[tuple[Path, Path]] = []
    path = Path()
    try:
        for path, text in stubs.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            staged.append((path.with_name(f".{path.name}.{os.getpid()}"), path))
            staged[-1][0].write_text(text, encoding="utf-8")
        for temporary, path in staged:
            temporary.replace(path)
    except OSError as error:
        raise SpecError(f"cannot write {path}: {error.strerror}") from None
    finally:
        for temporary, _ in staged:
            temporary.unlink(missing_ok=True)
