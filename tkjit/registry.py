"""Finds specs by name: the bundled kernels, entry points, and the directories of ``TKJIT_KERNEL_PATH``.

``NAME.py`` defines the kernel NAME. Other files may define several kernels. tkjit parses these files for the names.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from tkjit.config import Settings
from tkjit.errors import SpecError, TkjitError

ENTRY_POINTS = "tkjit.kernels"
SPEC_MODULES = "tkjit.kernel_sources"  # what a spec file's module is called
_PACKAGE = Path(__file__).resolve().parent

Definitions: TypeAlias = dict[str, list[tuple[str, int]]]  # by a kernel's name, the files and lines that define it


@cache
def bundled_directory() -> Path:
    """``kernel_sources``: inside the installed package, or beside it in a checkout."""
    inside = _PACKAGE / "kernel_sources"
    return inside if inside.is_dir() else _PACKAGE.parent / "kernel_sources"


@cache
def _bundled_directories() -> tuple[Path, ...]:
    """``kernel_sources``, and its groups: the kernels of a header library lie in a directory of its name."""
    root = bundled_directory()
    return (root, *(path for path in sorted(root.glob("*")) if path.is_dir()))


def is_spec_module(module: str) -> bool:
    """Whether a kernel's module is a spec file, which is found by the kernel's name and not imported."""
    return module.startswith(f"{SPEC_MODULES}.")


def kernel_files(settings: Settings) -> dict[str, Path]:
    """Every kernel's spec file; of two kernels with one name the user's own wins, then the bundled one."""
    files: dict[str, Path] = {}
    for directory in (*settings.kernel_path, *_bundled_directories(), *_entry_point_directories()):
        found = {name: Path(places[0][0]) for name, places in definitions(directory).items()}
        own = {name: path for name in found if (path := directory / f"{name}.py").is_file()}
        files = {**found, **own, **files}
    return files


def spec_files(directory: Path) -> list[Path]:
    """The files of a directory that may define kernels."""
    return [path for path in sorted(directory.glob("*.py")) if path.stem.isidentifier() and path.stem[0] != "_"]


def definitions(directory: Path) -> Definitions:
    """The kernels that a directory's files define, by their texts. No file is run."""
    found: Definitions = {}
    for path in spec_files(directory):
        for name, line in _names_in_file(path):
            found.setdefault(name, []).append((str(path), line))
    return found


def find_file(name: str, settings: Settings, definitions_of: Callable[[Path], Definitions] = definitions) -> Path:
    """The spec file of a kernel: ``NAME.py``, or another file of the same directory that defines it.

    Parameters
    ----------
    definitions_of : callable
        ``definitions``, or a function that knows the result from earlier.

    Raises
    ------
    SpecError
        If no kernel has that name, with near names; or if a directory has two, with both places.
    """
    # lazily: entry points take a walk through all installed packages
    directories = chain(settings.kernel_path, _bundled_directories(), _entry_point_directories())
    for directory in directories if name.isidentifier() else ():
        path = directory / f"{name}.py"
        if path.is_file():
            return path
        if places := definitions_of(directory).get(name):
            if len(places) > 1:
                raise SpecError(f"{name} is defined twice: {' and '.join(f'{file}:{line}' for file, line in places)}")
            return Path(places[0][0])
    import difflib

    files = kernel_files(settings)
    near = difflib.get_close_matches(name, files)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(sorted(files)) or 'none'}"
    raise SpecError(f"no kernel is named {name!r}; {hint}")


def run_spec_file(path: Path, name: str) -> Any:
    """The object that a spec file defines under a kernel's name.

    Raises
    ------
    SpecError
        If it does not define it, or fails.
    """
    status = path.stat()
    namespace = _run(path, status.st_mtime_ns, status.st_size)
    if name not in namespace:
        others = [other for other, _ in _names_in_file(path) if other in namespace]
        raise SpecError(f"{path} defines no {name!r}; it defines {', '.join(others) or 'no kernel'}")
    return namespace[name]


def _names_in_file(path: Path) -> list[tuple[str, int]]:
    """The kernels that a file defines, with their lines; one that cannot be read is looked for under its own name."""
    try:
        status = path.stat()
        return _parse_names(path, status.st_mtime_ns, status.st_size) or [(path.stem, 1)]
    except (OSError, ValueError, SyntaxError):  # running it says so
        return [(path.stem, 1)]


@cache
def _parse_names(path: Path, mtime_ns: int, size: int) -> list[tuple[str, int]]:
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


@dataclass(frozen=True)
class Reference:
    """A reference that stands in a spec file, which is run when it is called; or its function for the gradients."""

    path: Path
    name: str
    overload: int
    of_gradients: bool = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        spec = run_spec_file(self.path, self.name).specs[self.overload]
        function = spec.backward.function if self.of_gradients else spec.reference
        return function(*args, **kwargs)


@cache
def _run(path: Path, mtime_ns: int, size: int) -> dict[str, Any]:
    """Run a spec file; once, until it is edited."""
    namespace: dict[str, Any] = {"__name__": f"{SPEC_MODULES}.{path.stem}", "__file__": str(path)}
    try:
        # no bytecode: its files know an edit by the second only
        exec(compile(path.read_bytes(), path, "exec", dont_inherit=True), namespace)
        return namespace
    except TkjitError:
        raise
    except Exception as error:  # the author's own, of any kind
        import traceback

        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        line = getattr(error, "lineno", None) or (lines[-1] if lines else 1)
        raise SpecError(f"{path}:{line}: {type(error).__name__}: {error}") from error


def _entry_point_directories() -> Iterator[Path]:
    """Packages that bring kernels name a module whose directory holds the specs."""
    from importlib.metadata import entry_points  # 15 ms, and a bundled or named kernel does not need it

    for point in entry_points(group=ENTRY_POINTS):
        module = point.load()
        origin = getattr(module, "__file__", None)
        if origin:
            yield Path(origin).parent
