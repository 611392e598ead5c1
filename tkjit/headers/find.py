"""Finds header libraries: through a spec, an environment variable, a Python package, or the cache."""

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

DIRECTORY = "headers"  # in a cache or a bundle, next to the entries: headers do not depend on the Python version
_OF_CURAND = re.compile(r"curand\w*\.h")
_MISSING_OF_CURAND = re.compile(rf"({_OF_CURAND.pattern}): No such file")


def cached_root(name: str, settings: Settings) -> Path:
    """Return the directory to which ``python -m tkjit headers add`` installs a library."""
    return settings.cache_root / DIRECTORY / name


def trust_of(settings: Settings) -> Trust:
    """Return the trust check for header directories, which compilers read just like the kernel's own files."""
    return Trust(settings.cache_root, settings.cache_layers, shared=settings.cache_shared)


def find_root(library: HeaderLibrary, settings: Settings) -> Path | None:
    """Find a library's root: the spec's own, ``NAME_ROOT``, its Python package, or the copy in the cache.

    Returns None if none of these has the library but a CUDA toolkit may contain it, because the compiler then finds the
    library itself.

    Raises
    ------
    ToolchainError
        If the library is not found; the message has the command that installs it.
    CacheError
        If untrusted users can write to the copy in the cache.
    """
    configured = library.root or dict(settings.header_roots).get(library.name) or _in_package(library)
    root = configured or cached_root(library.name, settings)
    if not configured:
        trust_of(settings).check(str(root))
    if (root / library.proof).is_file():
        return root.absolute()
    if configured:
        origin = "the spec" if library.root else library.variable if not library.package else library.package
        raise ToolchainError(f"{library.name} is not in {configured} (from {origin}): it has no {library.proof}")
    if library.in_toolkit:
        return None
    raise ToolchainError(f"the headers of {library.name} are not found; {how_to_install(library)}")


def forward_to_curand(
    included: Iterable[str], directory: Path, settings: Settings, find_toolkit: Callable[[], Path | None]
) -> None:
    """Write a forwarding header for each included header of cuRAND.

    cuRAND is looked for in ``CURAND_ROOT``, in the cache and in a toolkit. Forwarding headers are needed because the
    simulator does not search a toolkit, most of whose headers a plain C++ compiler cannot read. If cuRAND is not found,
    the compiler reports the missing header.

    Raises
    ------
    ToolchainError
        If ``CURAND_ROOT`` does not have cuRAND's headers.
    CacheError
        If untrusted users can write to the copy in the cache.
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
    """Return advice for a cuRAND header that a compiler did not find; empty if its log has no such error."""
    found = _MISSING_OF_CURAND.search(log)
    return f"{found[1]} is a header of cuRAND; {how_to_install(LIBRARIES['curand'])}" if found else ""


def _in_package(library: HeaderLibrary) -> Path | None:
    """Return the directory of the Python package that contains a library."""
    found = find_spec(library.package) if library.package else None
    return Path(found.origin).parent if found and found.origin else None


def locate(spec: Spec, settings: Settings) -> Spec:
    """Fill in the roots of a spec's header libraries and the paths of its sources in them.

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
    """Return a library's root, or its directory in a bundle if the library is not installed.

    The bundle has only the kernel's sources, which are enough for cache lookups.
    """
    try:
        return find_root(library, settings)
    except ToolchainError:
        if library.name in dict(settings.header_roots):
            raise  # NAME_ROOT is set, but is wrong
        sources = [source.path for _, source in spec.sources if source.library == library.name and source.path]
        for layer in settings.cache_layers:
            root = layer / DIRECTORY / library.name
            trust_of(settings).check(str(root))
            if all((root / path).is_file() for path in sources) and (sources or not library.root):
                return root
        raise


def check_complete(spec: Spec) -> None:
    """Check that a spec's libraries have their headers, because a bundle may contain only the kernels' sources.

    Raises
    ------
    ToolchainError
        If headers are missing.
    """
    for library in spec.headers:
        if library.root and not (library.root / library.proof).is_file():
            raise ToolchainError(
                f"{spec.name} uses {library.name}, but {library.root} in the bundle has none of its headers; "
                f"{how_to_install(library)}"
            )


def bundled_sources(specs: Iterable[Spec]) -> dict[str, Path]:
    """Return the header libraries' sources that a bundle needs for cache lookups, by their paths in the bundle."""
    found = {}
    for spec in specs:
        for library in spec.headers:
            for _, source in spec.sources:
                if library.root and source.path and source.path.is_relative_to(library.root):
                    inside = source.path.relative_to(library.root)
                    found[f"{DIRECTORY}/{library.name}/{inside.as_posix()}"] = source.path
    return found


def how_to_install(library: HeaderLibrary) -> str:
    """Return advice on how to install a library, or how to give its root."""
    if library.package:
        return f"install the package: {pip_install(library.package)}"
    if library.name in LIBRARIES:
        return f"set {library.variable}, or install it: python -m tkjit headers add {library.name}"
    return f"give HeaderLibrary({library.name!r}, root=...)"
