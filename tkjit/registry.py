"""Finds specs by name: the directories of ``TKJIT_KERNEL_PATH``, the bundled kernels, and those of packages.

``NAME.py`` defines the kernel NAME. Other files may define several kernels. tkjit parses these files for the names.
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

SPEC_MODULES = "tkjit.kernel_sources"  # what a spec file's module is called
_FILE = "file:"  # and that of one that is named by its path
_PACKAGE = Path(__file__).resolve().parent

State: TypeAlias = tuple[int, ...]  # of a file, which no other content of it has
_UNREADABLE = (OSError, ValueError, SyntaxError, RecursionError, MemoryError)
Definitions: TypeAlias = dict[str, list[tuple[str, int]]]  # by a kernel's name, the files and lines that define it


@cache
def bundled_directory() -> Path:
    """``kernel_sources``: inside the installed package, or beside it in a checkout."""
    inside = _PACKAGE / "kernel_sources"
    return inside if inside.is_dir() else _PACKAGE.parent / "kernel_sources"


def _bundled_directories() -> Iterator[Path]:
    """``kernel_sources``, and its groups: the kernels of a header library lie in a directory of its name."""
    root = bundled_directory()
    yield root  # where most are found, before the groups are looked for
    yield from _groups(root)


@cache
def _groups(root: Path) -> tuple[Path, ...]:
    return tuple(path for path in sorted(root.glob("*")) if path.is_dir())


def names_of_file(path: Path) -> list[str]:
    """The kernels of a spec file that lies anywhere, as ``load`` finds them: ``FILE.py:NAME``."""
    return [f"{path}:{name}" for name in definitions(path)]


def is_spec_module(module: str) -> bool:
    """Whether a kernel's module is a spec file, which is found by the kernel's name and not imported."""
    return module.startswith(f"{SPEC_MODULES}.")


class Found(NamedTuple):
    """Where a kernel is defined.

    Parameters
    ----------
    name : str
        By which the file defines it: the last part of ``PACKAGE.NAME``.
    module : str
        What the file's module is called.
    """

    path: Path
    name: str
    module: str


def kernel_files(settings: Settings) -> dict[str, Path]:
    """Every kernel's spec file; of two kernels with one name the user's own wins, then the bundled one.

    Those of packages are ``PACKAGE.NAME``.
    """
    files: dict[str, Path] = {}
    for directory in (*settings.kernel_path, *_bundled_directories()):
        files = {**_files_in(directory), **files}
    for one in packages.packages().values():
        own = {} if one.problem else _files_in(one.place)
        files.update({f"{one.name}.{name}": path for name, path in own.items()})
    return files


def _files_in(place: Path) -> dict[str, Path]:
    found = {name: Path(places[0][0]) for name, places in definitions(place).items()}
    own = {name: path for name in found if (path := place / f"{name}.py").is_file()}
    return {**found, **own}


def spec_files(place: Path) -> list[Path]:
    """The files of a directory that may define kernels; a file stands for itself."""
    if place.is_file():
        return [place]
    named = [path for path in sorted(place.glob("*.py")) if path.stem.isidentifier() and path.stem[0] != "_"]
    return [path for path in named if path.is_file()]  # and no pipe, of which reading would wait


def definitions(place: Path) -> Definitions:
    """The kernels that a directory's files define, by their texts. No file is run."""
    found: Definitions = {}
    for path in spec_files(place):
        for name, line in _names_in_file(path):
            found.setdefault(name, []).append((str(path), line))
    return found


def summary_in_text(path: Path, name: str) -> str:
    """The first line of a kernel's docstring, by its file's text; empty if there is none. The file is not run."""
    try:
        statements = ast.parse(path.read_bytes()).body
    except _UNREADABLE:
        return ""
    found = (one for one in statements if isinstance(one, ast.FunctionDef) and one.name == name)
    return next((doc.partition("\n")[0] for one in found if (doc := ast.get_docstring(one))), "")


def find_file(name: str, settings: Settings, definitions_of: Callable[[Path], Definitions] = definitions) -> Found:
    """The spec file of a kernel: ``NAME.py``, or another file of the same directory that defines it.

    Parameters
    ----------
    name : str
        ``NAME``, ``PACKAGE.NAME``, or ``FILE.py:NAME``.
    definitions_of : callable
        ``definitions``, or a function that knows the result from earlier.

    Raises
    ------
    SpecError
        If no kernel has that name, with near names; or if there are two, with both places.
    """
    file, _, own = name.rpartition(":")
    if file.endswith(".py"):
        alone = Path(file).absolute()
        if not alone.is_file():
            raise SpecError(f"no kernel is named {name!r}: there is no file {file}")
        return Found(alone, own, f"{_FILE}{alone}")
    if name.endswith((".cu", ".cuh")):
        raise SpecError(f"{name} is a source; a kernel is named by its spec, a Python file: FILE.py:NAME")
    brought_by, _, own = name.rpartition(".")
    if "." in name and own.isidentifier() and own != "py":
        try:
            package = packages.package(brought_by)
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
    elsewhere = f"one in a file is FILE.py:{own}, and python -m tkjit list shows those that need no file"
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
    """The kernel of that name, if one package alone has it."""
    usable = [one for one in packages.packages().values() if not one.problem]
    paths = [(one, path) for one in usable if (path := _file_in(one.place, name, definitions_of)) is not None]
    if len(paths) > 1:
        raise SpecError(f"several packages have a kernel {name}: {', '.join(f'{one.name}.{name}' for one, _ in paths)}")
    return next((Found(path, name, one.module_of(path)) for one, path in paths), None)


def own_name(name: str) -> str:
    """What a file defines a kernel by, and what the cache calls it: ``relu`` of ``my_kernels.relu``, ``a.py:relu``."""
    return name.rpartition(":")[2].rpartition(".")[2]


def name_for_torch(name: str, module: str) -> str:
    """What the operator of a kernel is called below ``torch.ops.tkjit``: with its package's name, if it has one.

    An exported program finds it in another process by this name, whichever kernels are loaded there first.
    """
    package = None if is_spec_module(module) else packages.package_of(module)
    return name if package is None else re.sub(r"\W", "_", f"{package.name}__{name}")


def full_name(name: str, module: str) -> str | None:
    """What ``load`` finds a kernel by that its module defines; None if that is no spec file."""
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
    return known if found.module == module else None  # and not another file's kernel of that name


def run_spec_file(path: Path, name: str, module: str = "") -> Any:
    """The object that a spec file defines under a kernel's name.

    Parameters
    ----------
    module : str
        What the file's module is called; that of a package can import from its package.

    Raises
    ------
    SpecError
        If it does not define it, or fails.
    """
    namespace = _run(path, module or f"{SPEC_MODULES}.{path.stem}", _state(path))
    if name not in namespace:
        others = [other for other, _ in _names_in_file(path) if other in namespace]
        raise SpecError(f"{path} defines no {name!r}; it defines {', '.join(others) or 'no kernel'}")
    return namespace[name]


def _names_in_file(path: Path) -> list[tuple[str, int]]:
    """The kernels that a file defines, with their lines; one that cannot be read is looked for under its own name."""
    try:
        return _parse_names(path, _state(path)) or [(path.stem, 1)]
    except _UNREADABLE:  # running it says so
        return [(path.stem, 1)]


def _state(path: Path) -> State:
    """A file's size, times and inode: installers keep the time of change, and not the other one."""
    status = path.stat()
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


@cache
def _parse_names(path: Path, state: State) -> list[tuple[str, int]]:
    """Read a file's text; once, until it is edited."""
    found = []
    decorators = {"tkjit.kernel"}
    for statement in ast.parse(path.read_bytes()).body:
        match statement:
            case ast.Import(names=names):
                decorators.update(f"{each.asname}.kernel" for each in names if each.name == "tkjit" and each.asname)
            case ast.ImportFrom(module="tkjit", names=names):
                decorators.update(each.asname or each.name for each in names if each.name == "kernel")
            case ast.FunctionDef(name=name, decorator_list=[ast.Call(func=decorator)]) if name[0] != "_":
                if ast.unparse(decorator) in decorators:  # and not NAME.overload
                    found.append((name, statement.lineno))
            case ast.Assign(targets=[ast.Name(id=path.stem)]):
                found.append((path.stem, statement.lineno))
    return found


@cache
def _run(path: Path, module: str, state: State) -> dict[str, Any]:
    """Run a spec file; once, until it is edited."""
    namespace: dict[str, Any] = {"__name__": module, "__file__": str(path)}
    if not is_spec_module(module) and not module.startswith(_FILE):
        namespace["__package__"] = module.rpartition(".")[0]
    try:
        # no bytecode: its files know an edit by the second only
        exec(compile(path.read_bytes(), path, "exec", dont_inherit=True), namespace)
        return namespace
    except TkjitError:
        raise
    except Exception as error:  # the author's own, of any kind
        raise SpecError(_of_author(error, path)) from error


def _of_author(error: Exception, path: Path) -> str:
    """What an error in a spec file says, with its line there and what was probably meant."""
    import traceback

    from tkjit.spec.advice import name_without_quotes

    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    line, text = (lines[-1] if lines else None) or 1, str(error)
    advice = ""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        line, text = error.lineno or 1, error.msg
        if re.search(r"non-default argument|parameter without a default", text):
            advice = "; outputs stand before the parameters with defaults"
    elif isinstance(error, AssertionError):
        advice = '; this imports the file, so calls of its kernels stand under if __name__ == "__main__":'
    else:
        advice = name_without_quotes(error, linecache.getline(str(path), line))
    first, _, rest = text.partition("\n")
    said = f"{type(error).__name__}: {first}".removesuffix(": ")
    return f"{path}:{line}: {said}{advice}\n{rest}".rstrip()
