"""Where header libraries lie: as the environment, the cache or a spec says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tkjit.config import Settings
from tkjit.errors import ToolchainError
from tkjit.spec import LIBRARIES, HeaderLibrary, Source, Spec

DIRECTORY = "headers"  # of the cache: beside the entries, for it does not depend on Python


def cached_root(name: str, settings: Settings) -> Path:
    """Where ``python -m tkjit headers add`` puts a library."""
    return settings.cache_root / DIRECTORY / name


def find_root(library: HeaderLibrary, settings: Settings) -> Path | None:
    """A library's root: the spec's own, ``NAME_ROOT``, or what was added to the cache.

    None for one that has none of these and comes with a toolkit, in which the compiler will look.

    Raises
    ------
    ToolchainError
        If it lies nowhere; with the command that installs it.
    """
    given = library.root or dict(settings.header_roots).get(library.name)
    root = given or cached_root(library.name, settings)
    if (root / library.proof).is_file():
        return root.absolute()
    if given:
        origin = "the spec" if library.root else library.variable
        raise ToolchainError(f"{library.name} is not in {given}, which {origin} names: there is no {library.proof}")
    if library.in_toolkit:
        return None
    how = f"give HeaderLibrary({library.name!r}, root=...)"
    if library.name in LIBRARIES:
        how = f"set {library.variable}, or install it: python -m tkjit headers add {library.name}"
    raise ToolchainError(f"the headers of {library.name} are not found; {how}")


def located(spec: Spec, settings: Settings) -> Spec:
    """A spec whose header libraries have roots, and whose sources have places; as it is where it needs none.

    Raises
    ------
    ToolchainError
        If a library is not found.
    """
    if not spec.headers:
        return spec
    libraries = tuple(replace(library, root=find_root(library, settings)) for library in spec.headers)
    roots = {library.name: library.root for library in libraries}

    def place(source: Source) -> Source:
        root = roots.get(source.library)
        return replace(source, path=root / source.path, library="") if root and source.path else source

    return replace(spec, headers=libraries, sources=tuple((arch, place(source)) for arch, source in spec.sources))
