"""Writes entries, and opens them after checking their files and inputs.

``manifest.json`` holds the hashes of the other files and of itself. ``dependencies.json`` holds the hash of every file
that the compiler reported, and the names of shadows. A shadow is a file that has the same name as an included header,
in a directory that may precede the header's own on the include path.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from tkjit.cache import checked_json, fingerprints
from tkjit.cache.checked_json import DamagedError
from tkjit.cache.recipe import Product, Recipe, digest_of, digest_of_file
from tkjit.system import files
from tkjit.system.fork_safe import cached_property

LAYOUT = "v1"
MANIFEST = "manifest.json"
DEPENDENCIES = "dependencies.json"
TAIL_PARTS = 5  # an include may name the last one to five parts of a path: "cuda/std/__atomic/order.h" has four


@dataclass(frozen=True)
class Entry:
    """A published build.

    Parameters
    ----------
    shared_object_name : str
    module : str
        The name under which a Python module was compiled; empty for a launcher.
    fingerprint : bytes
        The fingerprint of the files that were compared when the entry was opened.
    """

    directory: Path
    shared_object_name: str
    module: str = ""
    fingerprint: bytes = field(default=b"", compare=False, repr=False)

    @property
    def shared_object(self) -> Path:
        return self.directory / self.shared_object_name

    @cached_property
    def manifest(self) -> Mapping[str, Any]:
        """The entry's inputs, when it was built, and the figures that the compiler reported.

        Raises
        ------
        DamagedError
            If it cannot be read, or a byte of it has changed.
        """
        return read_manifest(self.directory)

    @classmethod
    def of(cls, directory: Path, manifest: Mapping[str, Any]) -> Entry:
        return cls(directory, str(manifest["shared_object"]), str(manifest.get("module", "")))


def read_manifest(directory: Path) -> dict[str, Any]:
    """Read an entry's manifest.

    Raises
    ------
    DamagedError
        If it cannot be read, or a byte of it has changed.
    """
    manifest = checked_json.read(directory / MANIFEST)
    try:
        manifest["files"][manifest["shared_object"]]
    except (KeyError, TypeError) as error:
        raise DamagedError(f"{directory / MANIFEST} cannot be read: {error!r}") from None
    return manifest


def complete(staging: Path, recipe: Recipe, product: Product) -> str:
    """Write the manifest and the dependencies of a finished build, and return its ``deps_key``."""
    digests = {recipe.anchor(str(path)): fingerprints.digest_of_file(str(path)) for path in product.dependencies}
    search = _search_directories(recipe, product)
    found = shadows(search, [str(path) for path in product.dependencies])
    dependencies = {
        "files": digests,
        "search": [recipe.anchor(directory) for directory in search],
        "shadows": [recipe.anchor(path) for path in found],
    }
    files.write(staging / DEPENDENCIES, files.to_json(dependencies, indent=1))
    manifest = {
        "name": recipe.name,
        "arch": recipe.arch,
        "key": recipe.recorded_parts(),
        "tools": dict(recipe.tools or ()),
        "shared_object": product.shared_object,
        "built": round(time.time(), 3),
        "files": {path.name: digest_of_file(path) for path in sorted(staging.iterdir()) if path.is_file()},
        **({"stays_here": True} if recipe.stays_here else {}),
        **product.facts,
    }
    checked_json.write(staging / MANIFEST, manifest)
    return _deps_key(recipe, digests, dependencies["shadows"])


def _deps_key(recipe: Recipe, digests: Mapping[str, str], anchored_shadows: Iterable[str]) -> str:
    return digest_of([recipe.tools, dict(digests), list(anchored_shadows)])[:16]


def deps_key_here(dependencies: Mapping[str, Any], recipe: Recipe) -> str | None:
    """Return the ``deps_key`` that a build on this machine would have if it read the same files as a recorded build.

    Returns
    -------
    str or None
        None if one of these files does not exist here.
    """
    try:
        digests = {name: fingerprints.digest_of_file(recipe.resolve(name)) for name in dependencies["files"]}
    except OSError:
        return None
    search, read = ([recipe.resolve(name) for name in dependencies[part]] for part in ("search", "files"))
    return _deps_key(recipe, digests, map(recipe.anchor, shadows(search, read)))


def open_entry(directory: Path, recipe: Recipe, *, exact: bool = True) -> Entry | None:
    """Open an intact entry, or return None if its inputs differ from the current ones.

    Parameters
    ----------
    exact : bool
        Whether the tools and all headers must match. For a read-only layer, only the kernel's own files are compared,
        and only if they exist, because a machine that uses the layer may have neither compilers nor their headers.

    Raises
    ------
    DamagedError
        If the entry is damaged.
    """
    manifest = read_manifest(directory)
    _check_recipe(directory, manifest, recipe)
    if exact and manifest.get("tools") != dict(recipe.tools or ()):
        return None
    if changes(directory, manifest, recipe, exact=exact):
        return None
    verify_file(directory, manifest, manifest["shared_object"])
    return Entry.of(directory, manifest)


def check_intact(directory: Path, recipe: Recipe | None = None) -> None:
    """Check that the manifest, the shared object and the list of dependencies have not changed.

    Raises
    ------
    DamagedError
        If one of them has changed.
    """
    manifest = read_manifest(directory)
    if recipe is not None:
        _check_recipe(directory, manifest, recipe)
    for name in (manifest["shared_object"], DEPENDENCIES):
        verify_file(directory, manifest, name)


def _check_recipe(directory: Path, manifest: Mapping[str, Any], recipe: Recipe) -> None:
    """Check that an entry is at its own path: somebody may have copied it to another entry's path."""
    made_from = manifest.get("name"), manifest.get("arch"), manifest.get("key")
    if made_from != (recipe.name, recipe.arch, recipe.recorded_parts()):
        raise DamagedError(f"{directory} was built from other inputs than its path states")


def verify_file(directory: Path, manifest: Mapping[str, Any], name: str) -> None:
    """Compare a file of an entry with its recorded hash.

    Raises
    ------
    DamagedError
        If they differ.
    """
    try:
        digest = digest_of_file(f"{directory}/{name}")
    except OSError as error:
        raise DamagedError(f"{directory / name} cannot be read: {error.strerror}") from None
    if digest != manifest["files"].get(name):
        raise DamagedError(f"{directory / name} has changed since it was written")


def changes(directory: Path, manifest: Mapping[str, Any], recipe: Recipe, *, exact: bool = True) -> list[str]:
    """Describe which files among an entry's inputs have changed.

    Raises
    ------
    DamagedError
        If the entry's list of files is damaged.
    """
    return input_changes(read_dependencies(directory, manifest), recipe, exact=exact)


def input_changes(dependencies: Mapping[str, Any], recipe: Recipe, *, exact: bool) -> list[str]:
    """Describe which of a build's recorded ``files``, ``search`` and ``shadows`` have changed."""
    recorded = _compared_inputs(dependencies, recipe, exact=exact)
    found = []
    for name, digest in recorded["files"].items():
        try:
            if fingerprints.digest_of_file(recipe.resolve(name)) != digest:
                found.append(f"{name} has changed")
        except OSError:
            if exact:
                found.append(f"{name} is gone")
    search, read = ([recipe.resolve(name) for name in recorded[part]] for part in ("search", "files"))
    now, before = shadows(search, read), {recipe.resolve(name) for name in recorded["shadows"]}
    found += [f"{path} may hide a header" for path in now if path not in before]
    if exact:
        found += [f"{path} is gone" for path in sorted(before.difference(now))]
    return found


def _compared_inputs(recorded: Mapping[str, Any], recipe: Recipe, *, exact: bool) -> Mapping[str, Any]:
    """Return the recorded files and directories to compare: all of them, or for a layer only the kernel's own."""
    if exact:
        return recorded
    return {
        "files": {name: digest for name, digest in recorded["files"].items() if recipe.is_own(name)},
        "search": [place for place in recorded["search"] if recipe.is_own(f"{place}/")],
        "shadows": recorded["shadows"],
    }


def read_dependencies(directory: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Read those inputs of an entry that are not in its recipe: ``files``, ``search`` and ``shadows``.

    Raises
    ------
    DamagedError
        If the list is damaged.
    """
    verify_file(directory, manifest, DEPENDENCIES)
    try:
        return dict(files.read_json(directory / DEPENDENCIES, follow=True))
    except (OSError, ValueError, TypeError) as error:
        raise DamagedError(f"{directory / DEPENDENCIES} cannot be read: {error!r}") from None


def fingerprinted_paths(directory: Path, manifest: Mapping[str, Any], recipe: Recipe, *, exact: bool) -> list[str]:
    """List all files and directories whose state decides whether an entry is a hit."""
    recorded = _compared_inputs(read_dependencies(directory, manifest), recipe, exact=exact)
    read = [recipe.resolve(name) for name in recorded["files"]]
    places = watched_directories([recipe.resolve(place) for place in recorded["search"]], read)
    return [f"{directory}/{MANIFEST}", f"{directory}/{manifest['shared_object']}", *read, *places]


def files_and_places(recipe: Recipe, product: Product) -> list[str]:
    """List the ``fingerprinted_paths`` of a build that is not an entry yet, without the future entry's own files."""
    read = [str(path) for path in product.dependencies]
    return [*read, *watched_directories(_search_directories(recipe, product), read)]


def _search_directories(recipe: Recipe, product: Product) -> list[str]:
    """List the directories where a new header may hide another: search directories, and directories of kernel files."""
    own = [os.path.dirname(path) for path in map(str, product.dependencies) if recipe.is_own(recipe.anchor(path))]
    return list(dict.fromkeys([*map(str, product.search), *own]))


def shadows(search: Iterable[str], dependencies: Sequence[str]) -> list[str]:
    """List the files that the compiler did not read, but might have found in place of an included file that it read."""
    known = set(dependencies)
    return sorted(
        path
        for directory in search
        for tail in _tails_in(directory, dependencies)
        if (path := f"{directory}/{tail}") not in known and os.path.isfile(path)
    )


def watched_directories(search: Iterable[str], dependencies: Sequence[str]) -> list[str]:
    """List the directories to watch: while none of their times changes, no shadow can have appeared."""
    found: dict[str, None] = {}
    for directory in search:
        found[directory] = None
        inside: dict[str, None] = {}
        for tail in _tails_in(directory, dependencies):
            while (tail := os.path.dirname(tail)) and tail not in inside:
                inside[tail] = None
        found.update((path, None) for place in inside if os.path.isdir(path := f"{directory}/{place}"))
    return list(found)


def _tails_in(directory: str, dependencies: Sequence[str]) -> set[str]:
    """Return the trailing parts of dependencies' paths that start with the name of something in the directory."""
    try:
        names = set(os.listdir(directory))
    except OSError:
        return set()
    by_first = _tails_by_first_part(tuple(dependencies))
    return {tail for first in by_first.keys() & names for tail in by_first[first]}


@lru_cache(maxsize=2)  # called with the same argument for each directory of an entry
def _tails_by_first_part(dependencies: tuple[str, ...]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in dependencies:
        parts = path.split("/")
        for length in range(1, min(TAIL_PARTS, len(parts) - 1) + 1):
            found.setdefault(parts[-length], set()).add("/".join(parts[-length:]))
    return found
