"""The directory that a cache owns: its paths, the trust in its writers, and the leases of its entries.

The other modules build on it. `store.py` adds layers and lookup.
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

USED_S = 3600.0  # the precision of the recorded last use of an entry


class Directory:
    """The directory that a process builds into.

    Parameters
    ----------
    root : Path
        ``TKJIT_CACHE``.
    abi : str
        The Python tag and platform of the entries.
    layers : sequence of Path
        Further directories, read-only, whose writers are checked as well.
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
        self._prefix = f"{root}/"  # a string, because each step on a Path costs a warm call 5 us
        self.interruptions = 0  # the number of requests to end all builds
        self.building: set[Path] = set()  # the staging directories of this process's builds
        os.register_at_fork(after_in_child=self.building.clear)

    @property
    def remote(self) -> Remote | None:
        """A cache on a server, which is searched before a build and receives new builds."""
        return None

    @property
    def tools_memo(self) -> Path:
        return self.root / LAYOUT / "tools.json"

    # ---- paths

    def directory(self, recipe: Recipe, layer: Path | None = None) -> Path:
        """Return the directory of a recipe's entries."""
        base = layer / LAYOUT / self.abi if layer else self.base
        return base / recipe.arch / f"{recipe.name}-{recipe.build_key[:16]}"

    def failure_directory(self, recipe: Recipe) -> Path:
        """Return the directory in which a failed build leaves its text and log for the user."""
        return self.directory(recipe) / ".failed"

    def candidates(self, recipe: Recipe, layer: Path | None = None) -> list[Path]:
        """List the directories that may be entries of a recipe, the latest first.

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
            with suppress(OSError):  # evicted in the meantime
                times[directory / name] = os.stat(directory / name).st_mtime
        return sorted(times, key=lambda path: times[path], reverse=True)

    # ---- trust and leases

    def check_trust(self) -> None:
        """Check, before a cache is listed or cleared, that no untrusted user can write to it.

        Raises
        ------
        CacheError
            If one can.
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
            # abs, because a future time comes from a wrong clock and would protect the entry until then
            if abs(time.time() - os.stat(directory).st_mtime) > USED_S:
                os.utime(directory)
        except FileNotFoundError:
            return False
        except OSError:  # a read-only disk
            pass
        return True

    # ---- writing

    def make_directory(self, directory: Path) -> Path:
        """Make a directory of the cache and its missing parents, open to other users if the cache is shared."""
        return files.make_directory(directory, shared=self.shared)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turn an ``OSError`` in the block into an error that names the cache directory."""
        try:
            yield
        except OSError as error:
            raise self.write_failure(error) from error

    def write_failure(self, error: OSError) -> CacheError:
        """Return the error for an unwritable cache directory."""
        return CacheError(
            f"cannot write to the cache directory {self.root}: {error.strerror or error}; "
            "set TKJIT_CACHE to another one"
        )
