"""Finds installed packages that provide kernels, by their entry points in the group ``tkjit.kernels``.

An entry point names the package whose directory holds spec files. tkjit imports none of these packages: it looks up
the directory and parses the spec files.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from tkjit.errors import SpecError

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from importlib.metadata import EntryPoint

GROUP = "tkjit.kernels"


@dataclass(frozen=True)
class Package:
    """A package that provides kernels.

    Parameters
    ----------
    name : str
        The entry point's name, as in ``load("NAME.kernel")``.
    distribution : str
        The installed distribution: ``my-kernels 1.0``.
    place : Path
        The directory of the spec files, or the single file of a module that is not a package.
    module : str
        The import name of the package or module.
    problem : str
        Why the package cannot be used; empty if it can.
    """

    name: str
    distribution: str
    place: Path = Path()
    module: str = ""
    problem: str = ""

    def module_of(self, path: Path) -> str:
        """Return the module name of one of the package's spec files."""
        return self.module if path == self.place else f"{self.module}.{path.stem}"

    def has_module(self, module: str) -> bool:
        """Whether a module is one of the package's spec files."""
        return not self.problem and (module if self.place.is_file() else module.rpartition(".")[0]) == self.module


def packages() -> Mapping[str, Package]:
    """Map names to all packages, including unusable ones.

    The scan takes 15 ms, so its result is kept until something is installed or removed.
    """
    return _packages(tuple((place, _changed(place)) for place in sys.path))


def package(name: str) -> Package:
    """Return the package with a name.

    Raises
    ------
    SpecError
        If there is no such package, or it cannot be used.
    """
    known = packages()
    if name not in known:
        raise SpecError(f"no installed package provides kernels as {name!r}; {_hint(name, known)}")
    if known[name].problem:
        raise SpecError(f"{name}: {known[name].problem}")
    return known[name]


def package_of(module: str) -> Package | None:
    """Return the package that a kernel's module belongs to, or None."""
    return next((one for one in packages().values() if one.has_module(module)), None)


def _hint(name: str, known: Mapping[str, Package]) -> str:
    import difflib

    if near := difflib.get_close_matches(name, known):
        return f"did you mean {' or '.join(near)}?"
    if name.isidentifier() and _find_module(name, None) is not None:
        group = f'[project.entry-points."{GROUP}"]'
        return f'{name} is installed, but has no entry point: put {group} {name} = "{name}" into its pyproject.toml'
    return f"packages with kernels: {', '.join(sorted(known))}" if known else "no package with kernels is installed"


def _changed(place: str) -> int:
    """Return the time of the last installation into a directory, or removal from it."""
    try:
        return os.stat(place or ".").st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=1)
def _packages(search_path: tuple[tuple[str, int], ...]) -> Mapping[str, Package]:
    from importlib.metadata import entry_points  # takes 15 ms, and bundled kernels do not need it

    by_name: dict[str, Package] = {}
    for point in entry_points(group=GROUP):
        new = _package(point)
        if (other := by_name.get(point.name)) is not None and other.distribution != new.distribution:
            problem = f"both {other.distribution} and {new.distribution} provide kernels under this name; remove one"
            new = Package(point.name, new.distribution, problem=problem)
        by_name[point.name] = new
    return by_name


def _package(point: EntryPoint) -> Package:
    distribution = f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown distribution"
    try:
        place, module = _place(point)
    except Exception as error:  # an import hook can raise anything, and must not disable the other packages
        reason = str(error) if isinstance(error, SpecError) else f"{type(error).__name__}: {error}"
        problem = f"the entry point of {distribution}, {point.value!r}, {reason}"
        return Package(point.name, distribution, problem=problem)
    return Package(point.name, distribution, place, module)


def _place(point: EntryPoint) -> tuple[Path, str]:
    """Locate an entry point's spec files, and the package that contains them, without importing anything."""
    named, _, attribute = point.value.partition("[")[0].partition(":")
    if attribute:
        raise SpecError("names an object; expected the package that holds the spec files")
    spec: ModuleSpec | None = None
    for module in accumulate(named.strip().split("."), "{}.{}".format):
        spec = _find_module(module, spec)
        if spec is None:
            raise SpecError(f"names no module: there is no {module}")
    assert spec is not None
    if spec.submodule_search_locations is None:
        place = Path(spec.origin or "")
    else:
        directories = [Path(location) for location in spec.submodule_search_locations]
        if len(directories) != 1:
            raise SpecError("is a namespace over several directories; expected a package with an __init__.py")
        place = directories[0]
    if not place.exists():
        raise SpecError("is not in a directory; kernels in an archive cannot be compiled")
    if not os.access(place, os.R_OK):
        raise SpecError(f"is in {place}, which cannot be read")
    return place, named.strip()


def _find_module(name: str, parent: ModuleSpec | None) -> ModuleSpec | None:
    """Locate a module, or return None. ``importlib.util.find_spec`` would import its parent packages."""
    if parent is not None and parent.submodule_search_locations is None:
        return None
    path = None if parent is None else list(parent.submodule_search_locations or ())
    finders = [finder.find_spec for finder in sys.meta_path if hasattr(finder, "find_spec")]
    try:
        return next((found for find_spec in finders if (found := find_spec(name, path)) is not None), None)
    except KeyError:  # a namespace package looks up its parent in `sys.modules`, but the parent is not imported
        return _namespace(name, path or ())


def _namespace(name: str, path: Iterable[str]) -> ModuleSpec | None:
    """Return the spec of a namespace package, or None if no directory in ``path`` has a subdirectory of its name."""
    from importlib.machinery import ModuleSpec

    spec = ModuleSpec(name, None, is_package=True)
    last = name.rpartition(".")[2]
    spec.submodule_search_locations = [str(found) for place in path if (found := Path(place, last)).is_dir()]
    return spec if spec.submodule_search_locations else None
