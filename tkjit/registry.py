"""Finds specs by name: the bundled kernels, entry points, and the directories of ``TKJIT_KERNEL_PATH``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tkjit.config import Settings
from tkjit.errors import SpecError, TkjitError

ENTRY_POINTS = "tkjit.kernels"
MODULES = "tkjit.kernel_sources"  # what a spec file's module is called
_PACKAGE = Path(__file__).resolve().parent


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


def kernel_files(settings: Settings) -> dict[str, Path]:
    """Every spec file by its kernel's name; of two with one name the user's own wins, then the bundled one."""
    files: dict[str, Path] = {}
    for directory in (*settings.kernel_path, *_bundled_directories(), *_entry_point_directories()):
        for path in sorted(directory.glob("*.py")):
            if path.stem.isidentifier() and not path.stem.startswith("_"):
                files.setdefault(path.stem, path)
    return files


def find_file(name: str, settings: Settings) -> Path:
    """The spec file of a kernel.

    Raises
    ------
    SpecError
        If no file has that name; with near names.
    """
    for directory in (*settings.kernel_path, *_bundled_directories()):
        path = directory / f"{name}.py"
        if name.isidentifier() and path.is_file():
            return path
    files = kernel_files(settings)  # entry points too, which take a walk through all installed packages
    if name in files:
        return files[name]
    import difflib

    near = difflib.get_close_matches(name, files)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(sorted(files)) or 'none'}"
    raise SpecError(f"no kernel is named {name!r}; {hint}")


def run_spec_file(path: Path) -> Any:
    """The object that a spec file defines under the kernel's name.

    Raises
    ------
    SpecError
        If it does not define it, or fails.
    """
    status = path.stat()
    namespace = _run(path, status.st_mtime_ns, status.st_size)
    if path.stem not in namespace:
        raise SpecError(f"{path} defines no {path.stem!r}; a spec file defines the kernel that it is named after")
    return namespace[path.stem]


@dataclass(frozen=True)
class Reference:
    """A reference that stands in a spec file, which is run when it is called; or its function for the gradients."""

    path: Path
    overload: int
    of_gradients: bool = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        spec = run_spec_file(self.path).specs[self.overload]
        function = spec.backward.function if self.of_gradients else spec.reference
        return function(*args, **kwargs)


@cache
def _run(path: Path, mtime_ns: int, size: int) -> dict[str, Any]:
    """Run a spec file; once, until it is edited."""
    namespace: dict[str, Any] = {"__name__": f"{MODULES}.{path.stem}", "__file__": str(path)}
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
