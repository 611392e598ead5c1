"""The directory that a cache owns: its paths, the check of who can write to it, and the leases of its entries.

The other modules of the cache build on this one. `store.py` adds layers and lookup.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tkjit.cache.entry import LAYOUT, Entry
from tkjit.cache.leases import Leases
from tkjit.cache.recipe import Recipe
from tkjit.errors import CacheError
from tkjit.system import files
from tkjit.system.trust import Trust

if TYPE_CHECKING:
    from tkjit.cache.remote import Remote

USED_S = 3600.0  # an entry's time of last use is recorded with this precision


class Directory:
    """The directory that a process builds into.

    Parameters
    ----------
    root : Path
        ``TKJIT_CACHE``.
    abi : str
        The Python tag and the platform for which the entries are built.
    layers : sequence of Path
        Read-only directories, for which tkjit also checks who can write to them.
    shared : bool
        ``TKJIT_CACHE_SHARED``: everyone who can write to these directories is trusted.
    """

    def __init__(self, root: Path, abi: str, *, layers: Sequence[Path] = (), shared: bool = False) -> None:
        self.root = root
        self.abi = abi
        self.base = root / LAYOUT / abi
        self.shared = shared
        self.leases = Leases(root / LAYOUT, shared=shared)
        self.trust = Trust(root, layers, shared=shared)
        self._prefix = f"{root}/"  # a string, because each operation on a Path adds 5 us to a warm call
        self.interruptions = 0  # how often all builds have been asked to end
        self.building: set[Path] = set()  # the staging directories of this process's builds
        os.register_at_fork(after_in_child=self.building.clear)

    @property
    def remote(self) -> Remote | None:
        """The cache on a server, which is searched before a build and receives new builds."""
        return None

    @property
    def tools_memo(self) -> Path:
        return self.root / LAYOUT / "tools.json"

    # ---- paths

    def directory(self, recipe: Recipe, layer: Path | None = None) -> Path:
        """Return the directory that contains a recipe's entries."""
        base = layer / LAYOUT / self.abi if layer else self.base
        return base / recipe.arch / f"{recipe.name}-{recipe.build_key[:16]}"

    def failure_directory(self, recipe: Recipe) -> Path:
        """Return the directory where a failed build of a recipe leaves its text and log for the user."""
        return self.directory(recipe) / ".failed"

    def candidates(self, recipe: Recipe, layer: Path | None = None) -> list[Path]:
        """List the directories that may be entries of a recipe, starting with the latest.

        Raises
        ------
        CacheError
            If the layer cannot be read, or an untrusted user can write to it.
        """
        directory = self.directory(recipe, layer)
        self.trust.check(str(directory))
        try:
            names = [name for name in os.listdir(directory) if not name.startswith(".")]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise CacheError(f"cannot read the cache directory {directory}: {error.strerror}") from None
        times = {}
        for name in names:
            with suppress(OSError):  # the entry was evicted in the meantime
                times[directory / name] = os.stat(directory / name).st_mtime
        return sorted(times, key=lambda path: times[path], reverse=True)

    # ---- trust and leases

    def check_trust(self) -> None:
        """Check that no untrusted user can write to the cache. Call this before listing or clearing it.

        Raises
        ------
        CacheError
            If an untrusted user can write to it.
        """
        self.trust.check(str(self.root / LAYOUT))

    def use(self, entry: Entry) -> bool:
        """Take an entry's lease, which protects it from eviction, and record the time of use.

        Returns
        -------
        bool
            False if the entry has been evicted.
        """
        directory = str(entry.directory)
        if not directory.startswith(self._prefix):
            return True
        if not self.leases.hold(entry.directory):
            return False
        try:
            # use abs: a time in the future comes from a wrong clock, and would protect the entry until that time
            if abs(time.time() - os.stat(directory).st_mtime) > USED_S:
                os.utime(directory)
        except FileNotFoundError:
            return False
        except OSError:  # the disk is read-only
            pass
        return True

    # ---- writing

    def make_directory(self, directory: Path) -> Path:
        """Make a directory in the cache, and its missing parents. In a shared cache, other users can access them."""
        return files.make_directory(directory, shared=self.shared)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """If the block raises an ``OSError``, raise an error that names the cache directory instead."""
        try:
            yield
        except OSError as error:
            raise self.write_failure(error) from error

    def write_failure(self, error: OSError) -> CacheError:
        """Return the error to raise if the cache directory cannot be written."""
        return CacheError(
            f"cannot write to the cache directory {self.root}: {error.strerror or error}; "
            "set TKJIT_CACHE to another one"
        )
