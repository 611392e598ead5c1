"""Lists the entries of a cache, including damaged ones."""

from __future__ import annotations

import glob
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tkjit.cache.checked_json import DamagedError
from tkjit.cache.entry import LAYOUT, read_manifest, verify_file
from tkjit.cache.recipe import Recipe
from tkjit.cache.staging import STAGING, is_abandoned
from tkjit.system import files
from tkjit.system.fork_safe import cached_property


@dataclass(frozen=True)
class ListedEntry:
    """An entry on disk, intact or damaged.

    Parameters
    ----------
    used : float
        When the entry was last used, in seconds since the epoch, accurate to an hour.
    """

    directory: Path
    size_bytes: int
    used: float

    @property
    def abi(self) -> str:
        return self.directory.parents[2].name

    @property
    def arch(self) -> str:
        return self.directory.parents[1].name

    @property
    def name(self) -> str:
        return self.directory.parent.name.rpartition("-")[0]

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """The entry's manifest, empty if it is damaged."""
        try:
            return read_manifest(self.directory)
        except DamagedError:
            return {}

    def damage(self) -> list[str]:
        """Describe the damage to the entry's files."""
        found = []
        try:
            manifest = read_manifest(self.directory)
        except DamagedError as error:
            return [str(error)]
        for name in manifest["files"]:
            try:
                verify_file(self.directory, manifest, name)
            except DamagedError as error:
                found.append(str(error))
        return found


def list_entries(root: Path) -> list[ListedEntry]:
    """List the entries of a cache or layer for all Python versions and architectures."""
    found = []
    for directory in files.below(root / LAYOUT, "*", "*", "*", "*"):
        with suppress(OSError):  # the entry was removed in the meantime
            if directory.is_dir():
                found.append(ListedEntry(directory, size_bytes(directory), directory.stat().st_mtime))
    return found


def last_build_s(root: Path, recipe: Recipe, what: str) -> float | None:
    """Return how many seconds the latest build of an item took, whatever its source was then; None if there is none."""
    directories = files.below(root / LAYOUT, "*", recipe.arch, f"{glob.escape(recipe.name)}-*", "*")
    manifests = [ListedEntry(directory, 0, 0).manifest for directory in directories]
    builds = [manifest for manifest in manifests if manifest.get("what") == what and "seconds" in manifest]
    latest = max(builds, key=lambda manifest: float(manifest.get("built", 0)), default=None)
    return None if latest is None else float(latest["seconds"])


def leftovers(root: Path) -> list[Path]:
    """List the directories to remove besides entries: failed builds, discarded entries, remains of killed processes."""
    found = []
    for directory in files.below(root / LAYOUT, "*", "*", "*", ".*"):
        if directory.is_dir() and not (directory.name.startswith(STAGING) and not is_abandoned(directory)):
            found.append(directory)
    return found


def size_bytes(directory: Path) -> int:
    """Return how much disk space a directory's files take."""
    total = 0
    for place, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                total += os.lstat(f"{place}/{name}").st_blocks * 512
    return total
