"""The cache: layers to look in, and a directory of its own to build into."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from tkjit.cache import notes
from tkjit.cache.entry import LAYOUT, Entry, looked_at, open_entry, read_manifest
from tkjit.cache.leases import Leases
from tkjit.cache.recipe import Product, Recipe
from tkjit.cache.signed import DamagedError
from tkjit.errors import CacheError
from tkjit.system import files
from tkjit.system.trust import Trust, warn_of_no_sharing

USED_S = 3600.0  # how exactly the last use of an entry is recorded


class Noted(NamedTuple):
    """A note: the entries that it is about, what else it says, and the identities on which all of it depends."""

    entries: list[Entry]
    more: Any
    lines: bytes


class Cache:
    """A directory of entries, and read-only ones that are searched before it.

    Parameters
    ----------
    root : Path
        ``TKJIT_CACHE``.
    abi : str
        The Python tag and platform that the entries are for.
    layers : sequence of Path
        ``TKJIT_CACHE_READONLY``.
    shared : bool
        ``TKJIT_CACHE_SHARED``: whoever can write to these directories is trusted.
    limit_bytes : int or None
        ``TKJIT_CACHE_LIMIT``: what was not used for longest is removed when a build passes it.
    """

    def __init__(
        self, root: Path, abi: str, *, layers: Sequence[Path] = (), shared: bool = False, limit_bytes: int | None = None
    ) -> None:
        self.root = root
        self.abi = abi
        self.layers = tuple(layers)
        self.limit_bytes = limit_bytes
        self.base = root / LAYOUT / abi
        self.leases = Leases(root / LAYOUT, shared=shared)
        # replaced by the runtime's compiled one as soon as there is a runtime
        self.unchanged: Callable[[bytes], bool] = notes.unchanged
        self.interruptions = 0
        self.building: set[Path] = set()  # the staging directories that this process is at work in
        os.register_at_fork(after_in_child=self.building.clear)
        self.shared = shared
        self._is_told = False
        self._trust = Trust(root, self.layers, shared=shared)
        # strings: each step on a Path takes 5 us of a warm call
        self._root, self._notes = str(root), str(self.base / notes.DIRECTORY)

    @property
    def tools_memo(self) -> Path:
        return self.root / LAYOUT / "tools.json"

    def interrupt(self, is_over: Callable[[], bool]) -> None:
        """End every build that this process has begun, and those about to begin, until whoever waits is content."""
        from tkjit.cache import building

        while True:
            self.interruptions += 1
            building.end_compilers(self)
            if is_over():
                return
            time.sleep(0.02)  # one may just be starting its compiler

    # ---- looking up

    def recall(self, shortcut: str) -> Entry | None:
        """The entry that was found last time by way of a shortcut, if nothing that it depends on has changed since.

        Parameters
        ----------
        shortcut : str
            A name for all that the recipe depends on besides files: what it is made from need not be rendered then.
        """
        noted = self.noted(shortcut)
        if noted is None or not self.unchanged(noted.lines):
            return None
        entry = replace(noted.entries[0], seen=noted.lines)
        return entry if self.use(entry) else None

    def noted(self, shortcut: str) -> Noted | None:
        """What a note says, true or not; it lies in trusted directories, and so do the entries that it is about."""
        self._trust.check(self._notes)
        if (found := notes.read(f"{self._notes}/{shortcut}")) is None:
            return None
        (subjects, more), lines = found
        for directory, *_ in subjects:
            self._trust.check(directory)
        entries = [Entry(Path(directory), shared_object, module) for directory, shared_object, module in subjects]
        return Noted(entries, more, lines)

    def note(self, shortcut: str, entries: Sequence[Entry], lines: bytes, more: object = None) -> None:
        """Write down what was found, and the identities of the files on which that depends, each once.

        Parameters
        ----------
        more : object
            What JSON can hold.
        """
        directory = Path(self._notes)
        self._trust.check(self._notes)
        with suppress(OSError):
            self.make_directory(directory)
        self._trust.check(self._notes)  # now that it is there: somebody else may have been first
        subjects = [[str(one.directory), one.shared_object_name, one.module] for one in entries]
        once = b"".join(dict.fromkeys(lines.splitlines(keepends=True)))
        notes.write(directory / shortcut, [subjects, more], once, shared=self.shared)

    def lookup(
        self, recipe: Recipe, *, besides: Entry | None = None, shortcut: str = "", inputs: bytes = b""
    ) -> Entry | None:
        """The entry of a recipe whose dependencies are as they were when it was built; None on a miss.

        Parameters
        ----------
        besides : Entry, optional
            One that is not wanted.
        shortcut : str
            By which ``recall`` is to find it the next time.
        inputs : bytes
            The identities, as a note has them, of the files that went into the recipe, from before it was made.

        Raises
        ------
        CacheError
            If a directory cannot be read, or a stranger can write to it.
        """
        if (entry := self._search(recipe, besides)) is None or not self.use(entry):
            return None
        entry = replace(entry, seen=inputs + entry.seen)
        if shortcut:
            self.note(shortcut, [entry], entry.seen)
        return entry

    def _search(self, recipe: Recipe, besides: Entry | None) -> Entry | None:
        """Compare what there is, byte for byte."""
        for layer in (*self.layers, self.root):
            own = layer == self.root
            # without compilers nothing can be built anew, and what is there is all there is
            exact = own and recipe.tools is not None
            for directory in self.candidates(recipe, layer):
                self._trust.check(str(directory))
                with suppress(DamagedError):
                    if not own:
                        _check_bundled(directory, layer)
                    manifest = read_manifest(directory)
                    # before the contents: a file that changes in between does not match its note, and is read again
                    lines = notes.identities(looked_at(directory, manifest, recipe, exact=exact))
                    entry = open_entry(directory, recipe, exact=exact)
                    if entry is not None and entry != besides:
                        return replace(entry, seen=lines)
        return None

    def candidates(self, recipe: Recipe, layer: Path | None = None) -> list[Path]:
        """The directories in which an entry of a recipe may lie, the latest first.

        Raises
        ------
        CacheError
            If the layer cannot be read, or a stranger can write to it.
        """
        directory = self.directory(recipe, layer)
        self._trust.check(str(directory))
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

    def directory(self, recipe: Recipe, layer: Path | None = None) -> Path:
        """Where a recipe's entries lie."""
        base = layer / LAYOUT / self.abi if layer else self.base
        return base / recipe.arch / f"{recipe.name}-{recipe.build_key[:16]}"

    def check_trust(self) -> None:
        """Refuse a cache that a stranger can write to, before it is listed or cleared.

        Raises
        ------
        CacheError
        """
        self._trust.check(str(self.root / LAYOUT))

    def use(self, entry: Entry) -> bool:
        """Note that an entry is in use, which keeps it from being evicted, and when.

        Returns
        -------
        bool
            False if it was evicted before that.
        """
        directory = str(entry.directory)
        if not directory.startswith(f"{self._root}/"):
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

    # ---- building

    def build(
        self,
        recipe: Recipe,
        builder: Callable[[Path], Product],
        *,
        what: str = "",
        instead_of: Entry | None = None,
        waiting: Callable[[str], None] = lambda text: None,
    ) -> Entry:
        """The entry of a recipe, built by ``builder(staging directory)`` unless another process was first.

        Parameters
        ----------
        what : str
            What a person calls it.
        instead_of : Entry, optional
            An entry that is whole and yet cannot be loaded here: the new one takes its place.
        waiting : callable
            Told, in words, for whom this process waits.

        Raises
        ------
        CacheError
            If the directory cannot be written, or a header kept changing while it was compiled.
        CompileError
            Another process's, if this one waited for it.

        What the builder raises passes through, and leaves no entry.
        """
        from tkjit.cache import building

        with self.writing():
            self.make_directory(self.root)
        self._trust.check(self._root)  # now that it is there: somebody else may have been first
        self._trust.check(str(self.directory(recipe)))
        if self.shared and not self._is_told:
            self._is_told = True
            warn_of_no_sharing(self.root)
        entry = building.build(self, recipe, builder, what or recipe.name, instead_of, waiting)
        self.use(entry)
        if self.limit_bytes is not None:
            from tkjit.cache import eviction

            with suppress(OSError):  # what is built is built
                eviction.prune(self, self.limit_bytes)
        return entry

    def failure_directory(self, recipe: Recipe) -> Path:
        """Where the text and the log of a failed build stay, for a person to read."""
        return self.directory(recipe) / ".failed"

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


def _check_bundled(directory: Path, layer: Path) -> None:
    """A bundle has hashes of its own, which an entry that was put there later does not match."""
    from tkjit.cache import bundle

    if bundle.is_bundle(layer):
        bundle.check_bundled(directory, layer)
