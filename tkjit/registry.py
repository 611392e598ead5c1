"""Finds specs by name in the directories of ``TKJIT_KERNEL_PATH``, the bundled kernels and installed packages.

``NAME.py`` defines the kernel NAME. Other files may define several kernels, so tkjit parses them for the names.
``PACKAGE.NAME`` is a kernel of an installed package (``packages.py``).
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from tkjit import packages
from tkjit.config import Settings
from tkjit.errors import SpecError, TkjitError

SPEC_MODULES = (
    "tkjit.kernel_sources"  # begins the module name of a spec file, if tkjit found the file by its kernel's name
)
_FILE = "file:"  # the prefix of the module name if the user passed the file's path
_PACKAGE = Path(__file__).resolve().parent

State: TypeAlias = tuple[int, ...]  # a file's size, times and inode, which change when the file is edited
_UNREADABLE = (OSError, ValueError, SyntaxError, RecursionError, MemoryError)
Definitions: TypeAlias = dict[str, list[tuple[str, int]]]  # kernel name -> the files and lines that define it


@cache
def bundled_directory() -> Path:
    """Return ``kernel_sources``: inside the installed package, or next to it in a checkout."""
    inside = _PACKAGE / "kernel_sources"
    return inside if inside.is_dir() else _PACKAGE.parent / "kernel_sources"


def _bundled_directories() -> Iterator[Path]:
    """Yield ``kernel_sources`` and its subdirectories: one for each header library, with that library's kernels."""
    root = bundled_directory()
    yield root  # most lookups end here, before the subdirectories are listed
    yield from _groups(root)


@cache
def _groups(root: Path) -> tuple[Path, ...]:
    return tuple(path for path in sorted(root.glob("*")) if path.is_dir())


def names_of_file(path: Path) -> list[str]:
    """List the kernels of any spec file by the names that ``load`` accepts: ``FILE.py:NAME``."""
    return [f"{path}:{name}" for name in definitions(path)]


def is_spec_module(module: str) -> bool:
    """Whether a kernel's module is a spec file, which tkjit finds by the kernel's name and does not import."""
    return module.startswith(f"{SPEC_MODULES}.")


class Found(NamedTuple):
    """The location of a kernel's definition.

    Parameters
    ----------
    name : str
        The kernel's name in the file: the last part of ``PACKAGE.NAME``.
    module : str
        The name of the file's module.
    """

    path: Path
    name: str
    module: str


def kernel_files(settings: Settings) -> dict[str, Path]:
    """Map every kernel's name to its spec file. A user's own kernel takes precedence over a bundled one of that name.

    A package's kernels are named ``PACKAGE.NAME``.
    """
    files: dict[str, Path] = {}
    for directory in (*settings.kernel_path, *_bundled_directories()):
        files = {**_files_in(directory), **files}
    for package in packages.packages().values():
        own = {} if package.problem else _files_in(package.place)
        files.update({f"{package.name}.{name}": path for name, path in own.items()})
    return files


def _files_in(place: Path) -> dict[str, Path]:
    found = {name: Path(places[0][0]) for name, places in definitions(place).items()}
    own = {name: path for name in found if (path := place / f"{name}.py").is_file()}
    return {**found, **own}


def spec_files(place: Path) -> list[Path]:
    """List the files of a directory that may define kernels. For a file, return that file."""
    if place.is_file():
        return [place]
    named = [path for path in sorted(place.glob("*.py")) if path.stem.isidentifier() and path.stem[0] != "_"]
    return [path for path in named if path.is_file()]  # skip pipes, because reading one would block


def definitions(place: Path) -> Definitions:
    """Find the kernels that a directory's files define by parsing the files, without running them."""
    found: Definitions = {}
    for path in spec_files(place):
        for name, line in _names_in_file(path):
            found.setdefault(name, []).append((str(path), line))
    return found


def summary_in_text(path: Path, name: str) -> str:
    """Return the first line of a kernel's docstring, or an empty text, by parsing its file without running it."""
    try:
        statements = ast.parse(path.read_bytes()).body
    except _UNREADABLE:
        return ""
    found = (one for one in statements if isinstance(one, ast.FunctionDef) and one.name == name)
    return next((doc.partition("\n")[0] for one in found if (doc := ast.get_docstring(one))), "")


def _specs_of_source(source: Path) -> list[Path]:
    """Return the Python files next to a source that mention it."""
    quoted = (f'"{source.name}"', f"'{source.name}'")
    files = sorted(source.parent.glob("*.py"))
    return [file for file in files if any(name in file.read_text(errors="replace") for name in quoted)]


def find_file(name: str, settings: Settings, definitions_of: Callable[[Path], Definitions] = definitions) -> Found:
    """Find the spec file of a kernel: ``NAME.py``, or another file in the same directory that defines it.

    Parameters
    ----------
    name : str
        ``NAME``, ``PACKAGE.NAME``, or ``FILE.py:NAME``.
    definitions_of : callable
        ``definitions``, or a function that caches its results.

    Raises
    ------
    SpecError
        If no kernel has that name (the message suggests similar names), or if two have it (the message names both).
    """
    file, _, own = name.rpartition(":")
    if file.endswith(".py"):
        alone = Path(file).absolute()
        if not alone.is_file():
            raise SpecError(f"no kernel is named {name!r}: there is no file {file}")
        return Found(alone, own, f"{_FILE}{alone}")
    if name.endswith((".cu", ".cuh")):
        specs = _specs_of_source(Path(name))
        remedy = (
            f"name its spec instead: {' or '.join(map(str, specs))}"
            if specs
            else f"name the kernel by its spec, a Python file: FILE.py:NAME. python -m tkjit import {name} writes one"
        )
        raise SpecError(f"{name} is a CUDA source; {remedy}")
    package_name, _, own = name.rpartition(".")
    if "." in name and own.isidentifier() and own != "py":
        try:
            package = packages.package(package_name)
        except SpecError as error:
            raise SpecError(f"no kernel is named {name!r}: {error}") from None
        if (path := _file_in(package.place, own, definitions_of)) is not None:
            return Found(path, own, package.module_of(path))
    elif own.isidentifier():
        for directory in chain(settings.kernel_path, _bundled_directories()):
            if (path := _file_in(directory, own, definitions_of)) is not None:
                return Found(path, own, f"{SPEC_MODULES}.{path.stem}")
        if (found := _find_in_packages(own, definitions_of)) is not None:
            return found
    if name.endswith(".py"):
        path = Path(name)
        kernels = f"{name} is a file; its kernels are {', '.join(names_of_file(path))}"
        raise SpecError(kernels if path.is_file() else f"no kernel is named {name!r}: there is no file {name}")
    if Path(f"{name}.py").is_file():
        raise SpecError(f"no kernel is named {name!r}; did you mean {name}.py?")
    import difflib

    files = kernel_files(settings)
    near = difflib.get_close_matches(name, files) or [one for one in files if one.endswith(f".{name}")]
    own = own_name(name) if own_name(name).isidentifier() else "NAME"
    elsewhere = (
        f"pass FILE.py:{own} for a kernel in a file; python -m tkjit list shows the kernels that a name alone loads"
    )
    hint = f"did you mean {' or '.join(near)}?" if near else elsewhere
    raise SpecError(f"no kernel is named {name!r}; {hint}")


def _file_in(place: Path, name: str, definitions_of: Callable[[Path], Definitions]) -> Path | None:
    path = place / f"{name}.py"
    try:
        if path.is_file():
            return path
    except OSError as error:
        raise SpecError(f"cannot read {place}: {error.strerror}") from None
    places = definitions_of(place).get(name, [])
    if len(places) > 1:
        raise SpecError(f"{name} is defined twice: {' and '.join(f'{file}:{line}' for file, line in places)}")
    return Path(places[0][0]) if places else None


def _find_in_packages(name: str, definitions_of: Callable[[Path], Definitions]) -> Found | None:
    """Find a kernel by its name alone in the installed packages, or raise a SpecError if several packages have it."""
    usable = [package for package in packages.packages().values() if not package.problem]
    paths = [(each, path) for each in usable if (path := _file_in(each.place, name, definitions_of)) is not None]
    if len(paths) > 1:
        raise SpecError(f"several packages have a kernel {name}: {', '.join(f'{one.name}.{name}' for one, _ in paths)}")
    return next((Found(path, name, one.module_of(path)) for one, path in paths), None)


def own_name(name: str) -> str:
    """Return a kernel's name in its file and in the cache: ``relu`` for ``my_kernels.relu`` and ``a.py:relu``."""
    return name.rpartition(":")[2].rpartition(".")[2]


def name_for_torch(name: str, module: str) -> str:
    """Return the name of a kernel's operator in ``torch.ops.tkjit``, which contains the kernel's package if it has one.

    The name must not depend on which kernels a process loads first, because an exported program finds the operator by
    this name in another process.
    """
    package = None if is_spec_module(module) else packages.package_of(module)
    return name if package is None else re.sub(r"\W", "_", f"{package.name}__{name}")


def full_name(name: str, module: str) -> str | None:
    """Return the name by which ``load`` finds a kernel of a module, or None if the module is not a spec file."""
    if module.startswith(_FILE):
        return f"{module.removeprefix(_FILE)}:{name}"
    package = None if is_spec_module(module) else packages.package_of(module)
    if package is None:
        return name if is_spec_module(module) else None
    known = f"{package.name}.{name}"
    try:
        found = find_file(known, Settings.from_environment())
    except SpecError:
        return None
    return known if found.module == module else None  # another file may define a kernel of that name


def run_spec_file(path: Path, name: str, module: str = "") -> Any:
    """Run a spec file and return the object that it defines under a kernel's name.

    Parameters
    ----------
    module : str
        The name of the file's module; a file in a package can import from its package.

    Raises
    ------
    SpecError
        If the file does not define that name, or fails.
    """
    namespace = _run(path, module or f"{SPEC_MODULES}.{path.stem}", _state(path))
    if name not in namespace:
        others = [other for other, _ in _names_in_file(path) if other in namespace]
        raise SpecError(f"{path} defines no {name!r}; it defines {', '.join(others) or 'no kernel'}")
    return namespace[name]


def _names_in_file(path: Path) -> list[tuple[str, int]]:
    """List the kernels that a file defines, with their lines. For an unreadable file, return the file's own name."""
    try:
        return _parse_names(path, _state(path)) or [(path.stem, 1)]
    except _UNREADABLE:  # running the file reports the error
        return [(path.stem, 1)]


def _state(path: Path) -> State:
    """Return a file's size, times and inode.

    The status time changes even if an installer sets the modification time to that of the previous file.
    """
    status = path.stat()
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


@cache
def _parse_names(path: Path, state: State) -> list[tuple[str, int]]:
    """Parse a file; the result is kept until the file is edited."""
    found = []
    decorators = {"tkjit.kernel"}
    for statement in ast.parse(path.read_bytes()).body:
        match statement:
            case ast.Import(names=names):
                decorators.update(f"{each.asname}.kernel" for each in names if each.name == "tkjit" and each.asname)
            case ast.ImportFrom(module="tkjit", names=names):
                decorators.update(each.asname or each.name for each in names if each.name == "kernel")
            case ast.FunctionDef(name=name, decorator_list=[ast.Call(func=decorator)]) if name[0] != "_":
                if ast.unparse(decorator) in decorators:  # not NAME.overload, which adds to another kernel
                    found.append((name, statement.lineno))
            case ast.Assign(targets=[ast.Name(id=path.stem)]):
                found.append((path.stem, statement.lineno))
    return found


@cache
def _run(path: Path, module: str, state: State) -> dict[str, Any]:
    """Run a spec file; the result is kept until the file is edited."""
    namespace: dict[str, Any] = {"__name__": module, "__file__": str(path)}
    if not is_spec_module(module) and not module.startswith(_FILE):
        namespace["__package__"] = module.rpartition(".")[0]
    try:
        # no bytecode: a .pyc file records the source's time in seconds, so it would miss a quick edit
        exec(compile(path.read_bytes(), path, "exec", dont_inherit=True), namespace)
        return namespace
    except TkjitError:
        raise
    except Exception as error:  # the author's code can raise anything
        raise SpecError(_describe(error, path)) from error


def _describe(error: Exception, path: Path) -> str:
    """Describe an error in a spec file: its line, its message, and a hint at how to fix it if tkjit has one."""
    import traceback

    from tkjit.spec.advice import name_without_quotes

    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    line, text = (lines[-1] if lines else None) or 1, str(error)
    advice = ""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        line, text = error.lineno or 1, error.msg
        if re.search(r"non-default argument|parameter without a default", text):
            advice = "; put outputs before the parameters with defaults"
    elif isinstance(error, AssertionError):
        advice = '; tkjit imports this file, so put calls of its kernels under if __name__ == "__main__":'
    else:
        advice = name_without_quotes(error, linecache.getline(str(path), line))
    first, _, rest = text.partition("\n")
    described = f"{type(error).__name__}: {first}".removesuffix(": ")
    return f"{path}:{line}: {described}{advice}\n{rest}".rstrip()
