"""The directory that a cache owns: where things lie in it, who may write to it, and what is in use.

Everything in this room stands on it. It knows no layer and looks nothing up.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tkjit.cache.entry import LAYOUT, Entry
from tkjit.cache.leases import Leases
from tkjit.cache.recipe import Recipe
from tkjit.errors import CacheError
from tkjit.system import files
from tkjit.system.trust import Trust

USED_S = 3600.0  # how exactly the last use of an entry is recorded


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
        self.interruptions = 0  # how often somebody has asked for the end of all builds
        self.building: set[Path] = set()  # the staging directories that this process is at work in
        os.register_at_fork(after_in_child=self.building.clear)

    @property
    def tools_memo(self) -> Path:
        return self.root / LAYOUT / "tools.json"

    # ---- where things lie

    def directory(self, recipe: Recipe, layer: Path | None = None) -> Path:
        """Where a recipe's entries lie."""
        base = layer / LAYOUT / self.abi if layer else self.base
        return base / recipe.arch / f"{recipe.name}-{recipe.build_key[:16]}"

    def failure_directory(self, recipe: Recipe) -> Path:
        """Where the text and the log of a failed build stay, for a person to read."""
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

    # ---- who may write, and what is in use

    def check_trust(self) -> None:
        """Refuse a cache that an untrusted user can write to, before it is listed or cleared.

        Raises
        ------
        CacheError
        """
        self.trust.check(str(self.root / LAYOUT))

    def use(self, entry: Entry) -> bool:
        """Note that an entry is in use, which keeps it from being evicted, and when.

        Returns
        -------
        bool
            False if it was evicted before that.
        """
        directory = str(entry.directory)
        if not directory.startswith(self._prefix):
            return True
        if not self.leases.hold(entry.directory):
            return False
        try:
            # a time to come is of a clock that was wrong, and would keep the entry until then
            if abs(time.time() - os.stat(directory).st_mtime) > USED_S:
                os.utime(directory)
        except FileNotFoundError:
            return False
        except OSError:  # a read-only disk
            pass
        return True

    # ---- writing

    def make_directory(self, directory: Path) -> Path:
        """Make a directory of the cache, and those above it: as open as sharing needs, and not more."""
        return files.make_directory(directory, shared=self.shared)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Say what is wrong with the directory, where the block fails on it."""
        try:
            yield
        except OSError as error:
            raise self.write_failure(error) from error

    def write_failure(self, error: OSError) -> CacheError:
        """What to say of a directory that cannot be written."""
        return CacheError(
            f"cannot write to the cache directory {self.root}: {error.strerror or error}; "
            "set TKJIT_CACHE to another one"
        )
