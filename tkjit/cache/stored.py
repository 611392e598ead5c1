"""What a cache holds, whole or not, as a directory listing says it."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tkjit.cache.checked_json import DamagedError
from tkjit.cache.entry import LAYOUT, read_manifest, verify_file
from tkjit.cache.staging import STAGING, is_abandoned
from tkjit.system import files


@dataclass(frozen=True)
class Stored:
    """An entry as it lies there, whole or not.

    Parameters
    ----------
    used : float
        When it was last used, to the hour, in seconds since the epoch.
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
        """What it says of itself; empty if that cannot be believed."""
        try:
            return read_manifest(self.directory)
        except DamagedError:
            return {}

    def damage(self) -> list[str]:
        """What is not as it was when it was published, in each of its files."""
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


def stored(root: Path) -> list[Stored]:
    """Every entry of a cache or a layer, of all Pythons and architectures."""
    found = []
    for directory in files.below(root / LAYOUT, "*", "*", "*", "*"):
        with suppress(OSError):  # removed in the meantime
            if directory.is_dir():
                found.append(Stored(directory, size_bytes(directory), directory.stat().st_mtime))
    return found


def leftovers(root: Path) -> list[Path]:
    """What is not an entry and takes room: failed builds, bad entries, and what killed processes left."""
    found = []
    for directory in files.below(root / LAYOUT, "*", "*", "*", ".*"):
        if directory.is_dir() and not (directory.name.startswith(STAGING) and not is_abandoned(directory)):
            found.append(directory)
    return found


def size_bytes(directory: Path) -> int:
    """What the files of a directory take on the disk."""
    total = 0
    for place, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                total += os.lstat(f"{place}/{name}").st_blocks * 512
    return total
