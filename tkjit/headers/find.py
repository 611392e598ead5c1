"""Finds header libraries: in the environment, in the cache, or by a spec."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from tkjit.config import Settings
from tkjit.errors import ToolchainError
from tkjit.spec import LIBRARIES, HeaderLibrary, Source, Spec
from tkjit.system import files
from tkjit.system.install import pip_install
from tkjit.system.trust import Trust

DIRECTORY = "headers"  # of a cache or a bundle: beside the entries, for it does not depend on Python
_OF_CURAND = re.compile(r"curand\w*\.h")
_MISSING_OF_CURAND = re.compile(rf"({_OF_CURAND.pattern}): No such file")


def cached_root(name: str, settings: Settings) -> Path:
    """Where ``python -m tkjit headers add`` puts a library."""
    return settings.cache_root / DIRECTORY / name


def trust_of(settings: Settings) -> Trust:
    """What looks at the directories of headers, which a compiler reads as if they were the kernel's own."""
    return Trust(settings.cache_root, settings.cache_layers, shared=settings.cache_shared)


def find_root(library: HeaderLibrary, settings: Settings) -> Path | None:
    """A library's root: the spec's own, ``NAME_ROOT``, or what was added to the cache.

    None for one that has none of these and comes with a toolkit, in which the compiler will look.

    Raises
    ------
    ToolchainError
        If it lies nowhere; with the command that installs it.
    CacheError
        If untrusted users can write to that of the cache.
    """
    given = library.root or dict(settings.header_roots).get(library.name) or _in_package(library)
    root = given or cached_root(library.name, settings)
    if not given:
        trust_of(settings).check(str(root))
    if (root / library.proof).is_file():
        return root.absolute()
    if given:
        origin = "the spec" if library.root else library.variable if not library.package else library.package
        raise ToolchainError(f"{library.name} is not in {given}, which {origin} names: there is no {library.proof}")
    if library.in_toolkit:
        return None
    raise ToolchainError(f"the headers of {library.name} are not found; {how_to_install(library)}")


def forward_to_curand(
    included: Iterable[str], directory: Path, settings: Settings, find_toolkit: Callable[[], Path | None]
) -> None:
    """Write a header that includes the real one, for each of cuRAND's that are among the names of headers.

    They lie in ``CURAND_ROOT``, in the cache or in a toolkit. The simulator looks for no header in a toolkit, whose
    others are not for a C++ compiler alone. What lies nowhere is left to the compiler's error.

    Raises
    ------
    ToolchainError
        If they are not where ``CURAND_ROOT`` says.
    CacheError
        If untrusted users can write to those of the cache.
    """
    names = list(filter(_OF_CURAND.fullmatch, included))
    if not names:
        return
    root = find_root(LIBRARIES["curand"], settings)
    if root is None and (toolkit := find_toolkit()):
        root = toolkit / "include"
    for name in names:
        if root and (root / name).is_file():
            files.write(directory / name, f'#include "{root / name}"\n')


def how_to_find_curand(log: str) -> str:
    """What to do about a header of cuRAND that a compiler did not find; empty where its log has no such error."""
    found = _MISSING_OF_CURAND.search(log)
    return f"{found[1]} is a header of cuRAND; {how_to_install(LIBRARIES['curand'])}" if found else ""


def _in_package(library: HeaderLibrary) -> Path | None:
    """Where the Python package lies that a library is a part of."""
    found = find_spec(library.package) if library.package else None
    return Path(found.origin).parent if found and found.origin else None


def locate(spec: Spec, settings: Settings) -> Spec:
    """A spec whose header libraries have roots, and whose sources have places; as it is where it needs none.

    Raises
    ------
    ToolchainError
        If a library is not found.
    """
    if not spec.headers:
        return spec
    libraries = tuple(replace(library, root=_root_or_bundle(library, spec, settings)) for library in spec.headers)
    roots = {library.name: library.root for library in libraries}

    def place(source: Source) -> Source:
        root = roots.get(source.library)
        return replace(source, path=root / source.path, library="") if root and source.path else source

    sources = tuple((arch, place(source)) for arch, source in spec.sources)
    return replace(spec, compilation=replace(spec.compilation, headers=libraries, sources=sources))


def _root_or_bundle(library: HeaderLibrary, spec: Spec, settings: Settings) -> Path | None:
    """A library's root; where it is not here, that of a bundle with the sources by which the kernel is looked up."""
    try:
        return find_root(library, settings)
    except ToolchainError:
        if library.name in dict(settings.header_roots):
            raise  # somebody has said where it is
        sources = [source.path for _, source in spec.sources if source.library == library.name and source.path]
        for layer in settings.cache_layers:
            root = layer / DIRECTORY / library.name
            trust_of(settings).check(str(root))
            if all((root / path).is_file() for path in sources) and (sources or not library.root):
                return root
        raise


def check_complete(spec: Spec) -> None:
    """Refuse to compile without headers, where a bundle has let them be missing.

    Raises
    ------
    ToolchainError
    """
    for library in spec.headers:
        if library.root and not (library.root / library.proof).is_file():
            raise ToolchainError(
                f"{spec.name} is written on {library.name}, and {library.root}, of a bundle, has none of its headers; "
                f"{how_to_install(library)}"
            )


def bundled_sources(specs: Iterable[Spec]) -> dict[str, Path]:
    """The sources by which a bundle's machine looks up kernels of header libraries, by where they lie in the bundle."""
    found = {}
    for spec in specs:
        for library in spec.headers:
            for _, source in spec.sources:
                if library.root and source.path and source.path.is_relative_to(library.root):
                    inside = source.path.relative_to(library.root)
                    found[f"{DIRECTORY}/{library.name}/{inside.as_posix()}"] = source.path
    return found


def how_to_install(library: HeaderLibrary) -> str:
    """What makes a library found."""
    if library.package:
        return f"install the package: {pip_install(library.package)}"
    if library.name in LIBRARIES:
        return f"set {library.variable}, or install it: python -m tkjit headers add {library.name}"
    return f"give HeaderLibrary({library.name!r}, root=...)"
