"""The directory that a cache owns: its paths, the trust in its writers, and the leases of entries.

The base of the other modules. `store.py` adds layers and lookup.
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
        The Python tag and platform that the entries are for.
    layers : sequence of Path
        Other directories that are trusted on the same terms.
    shared : bool
        ``TKJIT_CACHE_SHARED``: whoever can write to these directories is trusted.
    """

    def __init__(self, root: Path, abi: str, *, layers: Sequence[Path] = (), shared: bool = False) -> None:
        self.root = root
        self.abi = abi
        self.base = root / LAYOUT / abi
        self.shared = shared
        self.leases = Leases(root / LAYOUT, shared=shared)
        self.trust = Trust(root, layers, shared=shared)
        self._prefix = f"{root}/"  # a string: a step on a Path takes 5 us of a warm call
        self.interruptions = 0  # number of requests to end all builds
        self.building: set[Path] = set()  # the staging directories of this process's builds
        os.register_at_fork(after_in_child=self.building.clear)

    @property
    def remote(self) -> Remote | None:
        """A cache on a server that is asked before a build, and given what was built."""
        return None

    @property
    def tools_memo(self) -> Path:
        return self.root / LAYOUT / "tools.json"

    # ---- paths

    def directory(self, recipe: Recipe, layer: Path | None = None) -> Path:
        """The directory of a recipe's entries."""
        base = layer / LAYOUT / self.abi if layer else self.base
        return base / recipe.arch / f"{recipe.name}-{recipe.build_key[:16]}"

    def failure_directory(self, recipe: Recipe) -> Path:
        """The directory of the text and the log of a failed build, for a person to read."""
        return self.directory(recipe) / ".failed"

    def candidates(self, recipe: Recipe, layer: Path | None = None) -> list[Path]:
        """The directories in which an entry of a recipe may lie, the latest first.

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
        """Refuse a cache that an untrusted user can write to, before it is listed or cleared.

        Raises
        ------
        CacheError
        """
        self.trust.check(str(self.root / LAYOUT))

    def use(self, entry: Entry) -> bool:
        """Take an entry's lease, which protects it from eviction, and record the time of use.

        Returns
        -------
        bool
            False if the entry was evicted before that.
        """
        directory = str(entry.directory)
        if not directory.startswith(self._prefix):
            return True
        if not self.leases.hold(entry.directory):
            return False
        try:
            # a time in the future is of a wrong clock, and would keep the entry until then
            if abs(time.time() - os.stat(directory).st_mtime) > USED_S:
                os.utime(directory)
        except FileNotFoundError:
            return False
        except OSError:  # a read-only disk
            pass
        return True

    # ---- writing

    def make_directory(self, directory: Path) -> Path:
        """Make a directory of the cache, and those above it, as open as sharing needs."""
        return files.make_directory(directory, shared=self.shared)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turn an ``OSError`` of the block into an error that names the cache directory."""
        try:
            yield
        except OSError as error:
            raise self.write_failure(error) from error

    def write_failure(self, error: OSError) -> CacheError:
        """The error for a cache directory that cannot be written."""
        return CacheError(
            f"cannot write to the cache directory {self.root}: {error.strerror or error}; "
            "set TKJIT_CACHE to another one"
        )
