"""The cache: layers to look in, and a directory of its own to build into."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from tkjit.cache import fingerprints
from tkjit.cache.checked_json import DamagedError
from tkjit.cache.directory import Directory
from tkjit.cache.entry import Entry, looked_at, open_entry, read_manifest
from tkjit.cache.recipe import Product, Recipe
from tkjit.system.trust import warn_of_no_sharing


class Record(NamedTuple):
    """A warm record: its entries, what else it says, and the fingerprint on which all of it depends."""

    entries: list[Entry]
    more: Any
    fingerprint: bytes


class Cache(Directory):
    """A directory of entries, and read-only ones that are searched before it.

    Parameters
    ----------
    root, abi, shared
        See ``Directory``.
    layers : sequence of Path
        ``TKJIT_CACHE_READONLY``.
    limit_bytes : int or None
        ``TKJIT_CACHE_LIMIT``: what was not used for longest is removed when a build passes it.
    """

    def __init__(
        self, root: Path, abi: str, *, layers: Sequence[Path] = (), shared: bool = False, limit_bytes: int | None = None
    ) -> None:
        super().__init__(root, abi, layers=layers, shared=shared)
        self.layers = tuple(layers)
        self.limit_bytes = limit_bytes
        # replaced by the runtime's compiled one as soon as there is a runtime
        self.unchanged: Callable[[bytes], bool] = fingerprints.unchanged
        self._is_told = False
        self._records = str(
            self.base / fingerprints.DIRECTORY
        )  # a string: each step on a Path takes 5 us of a warm call

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

    def warm_lookup(self, warm_key: str) -> Entry | None:
        """The entry that was found last time under a warm key, if nothing that it depends on has changed since.

        Parameters
        ----------
        warm_key : str
            A name for all that the recipe depends on besides files: what it is made from need not be rendered then.
        """
        record = self.read_record(warm_key)
        if record is None or not self.unchanged(record.fingerprint):
            return None
        entry = replace(record.entries[0], fingerprint=record.fingerprint)
        return entry if self.use(entry) else None

    def read_record(self, warm_key: str) -> Record | None:
        """A record, true or not; it lies in trusted directories, and so do the entries that it is about."""
        self.trust.check(self._records)
        if (found := fingerprints.read_record(f"{self._records}/{warm_key}")) is None:
            return None
        (subjects, more), fingerprint = found
        for directory, *_ in subjects:
            self.trust.check(directory)
        entries = [Entry(Path(directory), shared_object, module) for directory, shared_object, module in subjects]
        return Record(entries, more, fingerprint)

    def write_record(self, warm_key: str, entries: Sequence[Entry], fingerprint: bytes, more: object = None) -> None:
        """Write down what was found, and the fingerprint of the files on which that depends, each once.

        Parameters
        ----------
        more : object
            What JSON can hold.
        """
        directory = Path(self._records)
        self.trust.check(self._records)
        with suppress(OSError):
            self.make_directory(directory)
        self.trust.check(self._records)  # now that it is there: somebody else may have been first
        subjects = [[str(one.directory), one.shared_object_name, one.module] for one in entries]
        once = b"".join(dict.fromkeys(fingerprint.splitlines(keepends=True)))
        fingerprints.write_record(directory / warm_key, [subjects, more], once, shared=self.shared)

    def lookup(
        self, recipe: Recipe, *, besides: Entry | None = None, warm_key: str = "", inputs: bytes = b""
    ) -> Entry | None:
        """The entry of a recipe whose dependencies are as they were when it was built; None on a miss.

        Parameters
        ----------
        besides : Entry, optional
            One that is not wanted.
        warm_key : str
            By which ``warm_lookup`` is to find it the next time.
        inputs : bytes
            The fingerprint of the files that went into the recipe, from before it was made.

        Raises
        ------
        CacheError
            If a directory cannot be read, or an untrusted user can write to it.
        """
        if (entry := self._search(recipe, besides)) is None or not self.use(entry):
            return None
        entry = replace(entry, fingerprint=inputs + entry.fingerprint)
        if warm_key:
            self.write_record(warm_key, [entry], entry.fingerprint)
        return entry

    def _search(self, recipe: Recipe, besides: Entry | None) -> Entry | None:
        """Compare what there is, byte for byte."""
        for layer in (*self.layers, self.root):
            own = layer == self.root
            # without compilers nothing can be built anew, and what is there is all there is
            exact = own and recipe.tools is not None
            for directory in self.candidates(recipe, layer):
                self.trust.check(str(directory))
                with suppress(DamagedError):
                    if not own:
                        _check_bundled(directory, layer)
                    manifest = read_manifest(directory)
                    # before the contents: a file that changes in between does not match, and is read again
                    fingerprint = fingerprints.of(looked_at(directory, manifest, recipe, exact=exact))
                    entry = open_entry(directory, recipe, exact=exact)
                    if entry is not None and entry != besides:
                        return replace(entry, fingerprint=fingerprint)
        return None

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
        self.trust.check(str(self.root))  # now that it is there: somebody else may have been first
        self.trust.check(str(self.directory(recipe)))
        if self.shared and not self._is_told:
            self._is_told = True
            warn_of_no_sharing(self.root)
        entry = building.build(self, self.lookup, recipe, builder, what or recipe.name, instead_of, waiting)
        self.use(entry)
        if self.limit_bytes is not None:
            from tkjit.cache import eviction

            with suppress(OSError):  # what is built is built
                eviction.prune(self, self.limit_bytes)
        return entry


def _check_bundled(directory: Path, layer: Path) -> None:
    """A bundle has hashes of its own, which an entry that was put there later does not match."""
    from tkjit.cache import bundle

    if bundle.is_bundle(layer):
        bundle.check_bundled(directory, layer)
