"""Bundles: portable, read-only layers that contain a hash of each of their files.

A bundle has the same layout as a cache. Its file ``bundle.json`` lists the kernels, architectures, versions and files.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tkjit.cache import checked_json
from tkjit.cache.checked_json import DamagedError
from tkjit.cache.entry import LAYOUT, MANIFEST, Entry
from tkjit.cache.listing import ListedEntry, list_entries
from tkjit.cache.recipe import digest_of_file
from tkjit.errors import CacheError

BUNDLE = "bundle.json"


def write(
    directory: Path, entries: Sequence[Entry], facts: Mapping[str, Any], more: Mapping[str, Path] | None = None
) -> int:
    """Write a bundle, replacing an existing one, and return its size in bytes.

    Parameters
    ----------
    more : mapping of str to Path, optional
        Files to include in addition to the entries, by their paths in the bundle.

    Raises
    ------
    CacheError
        If the directory contains anything but a bundle, or cannot be written.
    """
    check_target(directory)
    scratch = directory.with_name(f".{directory.name}-{secrets.token_hex(4)}")
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        for entry in {one.directory: one for one in entries}.values():  # kernels may share an entry
            # <abi>/<arch>/<name>-<build_key>/<deps_key>
            place = scratch / LAYOUT / Path(*entry.directory.parts[-4:])
            shutil.copytree(entry.directory, place)
        for name, path in (more or {}).items():
            (scratch / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, scratch / name)
        files = {str(path.relative_to(scratch)): digest_of_file(path) for path in sorted(_files(scratch))}
        checked_json.write(scratch / BUNDLE, {**facts, "files": files})
        for folder, _, names in os.walk(scratch):
            os.chmod(folder, 0o755)
            for name in names:
                os.chmod(f"{folder}/{name}", os.stat(f"{folder}/{name}").st_mode & 0o755)
        size = sum(path.stat().st_size for path in _files(scratch))
        if directory.exists():
            replaced = scratch.with_name(f"{scratch.name}-old")
            directory.rename(replaced)
            scratch.rename(directory)
            shutil.rmtree(replaced, ignore_errors=True)
        else:
            scratch.rename(directory)
    except shutil.Error as error:  # shutil.Error lists all files that could not be copied
        raise CacheError(f"cannot write the bundle {directory}: {error.args[0][0][-1]}") from error
    except OSError as error:
        raise CacheError(f"cannot write the bundle {directory}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return size


def check_target(directory: Path) -> None:
    """Reject a directory that contains anything but a bundle.

    Raises
    ------
    CacheError
        If the path is a file, or a directory with other contents.
    """
    if directory.exists() and not is_bundle(directory) and (not directory.is_dir() or any(directory.iterdir())):
        raise CacheError(f"{directory} exists and is not a bundle; choose another directory")


def is_bundle(directory: Path) -> bool:
    return (directory / BUNDLE).is_file()


def check_bundled(directory: Path, root: Path) -> None:
    """Check that an entry is the one that its bundle's ``bundle.json`` lists.

    Raises
    ------
    DamagedError
        If it is not.
    """
    _check_file(root, str((directory / MANIFEST).relative_to(root)))


def digest(root: Path) -> str:
    """Return a digest of a whole bundle: the hash of ``bundle.json``, which in turn contains the hash of each file.

    A user who receives the digest separately can detect whether the bundle has been replaced.

    Raises
    ------
    CacheError
        If there is no bundle.
    """
    try:
        return digest_of_file(root / BUNDLE)
    except OSError:
        raise CacheError(f"{root} is not a bundle: it has no readable {BUNDLE}") from None


def check_digest(root: Path, expected: str) -> None:
    """Compare a bundle's digest with the one that ``python -m tkjit bundle`` printed.

    Raises
    ------
    CacheError
        If the expected value is not a digest, or there is no bundle.
    DamagedError
        If the bundle has another digest.
    """
    wanted = expected.strip().lower().removeprefix("sha256:")
    if not re.fullmatch("[0-9a-f]{64}", wanted):
        raise CacheError(f"{expected!r} is not a digest; pass the 64 digits that python -m tkjit bundle printed")
    if (found := digest(root)) != wanted:
        raise DamagedError(f"{root} is a different bundle: expected the digest {wanted}, got {found}")


def verify(root: Path) -> tuple[list[ListedEntry], list[str]]:
    """List the entries of a cache, layer or bundle, and describe any damage to its files."""
    entries = list_entries(root)
    found = [problem for one in entries for problem in one.damage()]
    return entries, found + (_bundle_damage(root) if is_bundle(root) else [])


def bundled_files(root: Path) -> dict[str, str]:
    """Map each file in a bundle to its hash.

    Raises
    ------
    DamagedError
        If the list has changed since it was written.
    """
    path = root / BUNDLE
    try:
        return dict(checked_json.read(path)["files"])
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedError(f"{path} cannot be read: {error!r}") from None


def _check_file(root: Path, place: str) -> None:
    """Check that a file in a bundle is unchanged.

    Raises
    ------
    DamagedError
        If it is not.
    """
    try:
        found = digest_of_file(root / place)
    except OSError as error:
        raise DamagedError(f"{root / place} cannot be read: {error.strerror}") from None
    if found != bundled_files(root).get(place):
        raise DamagedError(f"{root / place} is not the file that was bundled")


def _bundle_damage(root: Path) -> list[str]:
    try:
        files = bundled_files(root)
    except DamagedError as error:
        return [str(error)]
    found = []
    for name, digest in files.items():
        try:
            if digest_of_file(root / name) != digest:
                found.append(f"{root / name} is not the file that was bundled")
        except OSError as error:
            found.append(f"{root / name} cannot be read: {error.strerror}")
    # include links and FIFOs, because a valid bundle never contains them
    present = [path for path in root.rglob("*") if path.is_symlink() or not path.is_dir()]
    unknown = {str(path.relative_to(root)) for path in present} - {*files, BUNDLE}
    return found + [f"{root / name} was not bundled" for name in sorted(unknown)]


def _files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]
