"""The cache: searches the layers and its own directory, and builds into its own directory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tkjit.cache import fingerprints
from tkjit.cache.checked_json import DamagedError
from tkjit.cache.directory import Directory
from tkjit.cache.entry import LAYOUT, Entry, fingerprinted_paths, open_entry, read_manifest
from tkjit.cache.recipe import Product, Recipe
from tkjit.config import RemoteSettings
from tkjit.system.fork_safe import cached_property
from tkjit.system.trust import warn_of_no_sharing

if TYPE_CHECKING:
    from tkjit.cache.remote import Remote


class Record(NamedTuple):
    """A warm record: its entries, further content, and the fingerprint on which both depend."""

    entries: list[Entry]
    more: Any
    fingerprint: bytes


class Cache(Directory):
    """A directory of entries, and the read-only layers that are searched before it.

    Parameters
    ----------
    root, abi, shared
        See ``Directory``.
    layers : sequence of Path
        ``TKJIT_CACHE_READONLY``.
    limit_bytes : int or None
        ``TKJIT_CACHE_LIMIT``: a build that exceeds it removes the least recently used entries.
    remote : RemoteSettings, optional
        ``TKJIT_CACHE_REMOTE`` and what belongs to it.
    """

    def __init__(
        self,
        root: Path,
        abi: str,
        *,
        layers: Sequence[Path] = (),
        shared: bool = False,
        limit_bytes: int | None = None,
        remote: RemoteSettings | None = None,
    ) -> None:
        super().__init__(root, abi, layers=layers, shared=shared)
        self._remote_settings = remote
        self.layers = tuple(layers)
        self.limit_bytes = limit_bytes
        # replaced by the runtime's compiled function as soon as there is a runtime
        self.unchanged: Callable[[bytes], bool] = fingerprints.unchanged
        self._warned_of_private_root = False
        # a string: each step on a Path takes 5 us of a warm call
        self._records = str(self.base / fingerprints.DIRECTORY)

    @cached_property
    def remote(self) -> Remote | None:
        """The cache on a server, if there is one; a warm call does not import it."""
        if self._remote_settings is None or not self._remote_settings.url:
            return None
        from tkjit.cache.remote import Remote

        return Remote(self._remote_settings, self.abi, self.root / LAYOUT, shared=self.shared)

    def interrupt(self, is_over: Callable[[], bool]) -> None:
        """End every build of this process, also those about to begin, until ``is_over`` returns true."""
        from tkjit.cache import building

        while True:
            self.interruptions += 1
            building.end_compilers(self)
            if is_over():
                return
            time.sleep(0.02)  # one may just be starting its compiler

    # ---- looking up

    def warm_lookup(self, warm_key: str) -> Entry | None:
        """The entry of the previous lookup under a warm key, if none of its files has changed since.

        Parameters
        ----------
        warm_key : str
            A name for all inputs of the recipe besides files: a hit then renders no text.
        """
        record = self.read_record(warm_key)
        if record is None or not self.unchanged(record.fingerprint):
            return None
        entry = replace(record.entries[0], fingerprint=record.fingerprint)
        return entry if self.use(entry) else None

    def read_record(self, warm_key: str) -> Record | None:
        """A record, valid or outdated. The record and its entries lie in trusted directories."""
        self.trust.check(self._records)
        if (found := fingerprints.read_record(f"{self._records}/{warm_key}")) is None:
            return None
        (subjects, more), fingerprint = found
        for directory, *_ in subjects:
            self.trust.check(directory)
        entries = [Entry(Path(directory), shared_object, module) for directory, shared_object, module in subjects]
        return Record(entries, more, fingerprint)

    def write_record(self, warm_key: str, entries: Sequence[Entry], fingerprint: bytes, more: object = None) -> None:
        """Write a record of entries and the fingerprint of their files, each file once.

        Parameters
        ----------
        more : object
            Further content, of JSON's types.
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
        self, recipe: Recipe, *, exclude: Entry | None = None, warm_key: str = "", inputs: bytes = b""
    ) -> Entry | None:
        """The entry of a recipe whose dependencies are unchanged since its build; None on a miss.

        Parameters
        ----------
        exclude : Entry, optional
            An entry that must not be returned.
        warm_key : str
            The key for the next ``warm_lookup``.
        inputs : bytes
            The fingerprint of the recipe's files, taken before the recipe was made.

        Raises
        ------
        CacheError
            If a directory cannot be read, or an untrusted user can write to it.
        """
        if (entry := self._search(recipe, exclude)) is None or not self.use(entry):
            return None
        entry = replace(entry, fingerprint=inputs + entry.fingerprint)
        if warm_key:
            self.write_record(warm_key, [entry], entry.fingerprint)
        return entry

    def _search(self, recipe: Recipe, exclude: Entry | None) -> Entry | None:
        """Compare the existing entries, byte for byte."""
        for layer in (*(() if recipe.stays_here else self.layers), self.root):
            own = layer == self.root
            # without compilers nothing can be built, so an existing entry is used
            exact = own and recipe.tools is not None
            for directory in self.candidates(recipe, layer):
                self.trust.check(str(directory))
                with suppress(DamagedError):
                    if not own:
                        _check_bundled(directory, layer)
                    manifest = read_manifest(directory)
                    # before the contents: a file that changes in between does not match, and is read again
                    fingerprint = fingerprints.of(fingerprinted_paths(directory, manifest, recipe, exact=exact))
                    entry = open_entry(directory, recipe, exact=exact)
                    if entry is not None and entry != exclude:
                        return replace(entry, fingerprint=fingerprint)
        return None

    # ---- building

    def fetch(
        self, recipe: Recipe, *, what: str = "", report_wait: Callable[[str], None] = lambda text: None
    ) -> Entry | None:
        """The entry of a recipe from the remote cache, if there is one that has it; nothing is built.

        Raises
        ------
        CacheError
            If the directory cannot be written, or the settings of the remote cache are no good.
        """
        if self.remote is None:
            return None
        from tkjit.cache import building

        self._prepare(recipe)
        entry = building.fetch(self, self.lookup, recipe, what or recipe.name, report_wait)
        return entry if entry is not None and self.use(entry) else None

    def _prepare(self, recipe: Recipe) -> None:
        """Make the root, and check who can write to it and to a recipe's directory, and how a server is set."""
        with self.writing():
            self.make_directory(self.root)
        self.trust.check(str(self.root))  # now that it is there: somebody else may have been first
        self.trust.check(str(self.directory(recipe)))
        if self.remote is not None:
            self.remote.check_settings()

    def build(
        self,
        recipe: Recipe,
        builder: Callable[[Path], Product],
        *,
        what: str = "",
        replacing: Entry | None = None,
        report_wait: Callable[[str], None] = lambda text: None,
        watch_after_s: float | None = 0.0,
    ) -> Entry:
        """The entry of a recipe, built by ``builder(staging directory)`` unless another process was first.

        Parameters
        ----------
        what : str
            Its name for a person.
        replacing : Entry, optional
            An entry that is whole but cannot be loaded here: the new one replaces it.
        report_wait : callable
            Called with a text that names the process for which this one waits.
        watch_after_s : float, optional
            Seconds after which a watchdog is there, which ends what the builder has started if this process is killed;
            None for no watchdog.

        Raises
        ------
        CacheError
            If the directory cannot be written, or a header kept changing while it was compiled.
        CompileError
            Another process's, if this one waited for it.

        An exception of the builder passes through, and leaves no entry.
        """
        from tkjit.cache import building

        self._prepare(recipe)
        if self.shared and not self._warned_of_private_root:
            self._warned_of_private_root = True
            warn_of_no_sharing(self.root)
        called = what or recipe.name
        entry = building.build(self, self.lookup, recipe, builder, called, replacing, report_wait, watch_after_s)
        self.use(entry)
        if self.limit_bytes is not None:
            from tkjit.cache import eviction

            with suppress(OSError):  # the build itself has succeeded
                eviction.prune(self, self.limit_bytes)
        return entry


def _check_bundled(directory: Path, layer: Path) -> None:
    """Compare an entry with its bundle's own hashes, which an entry that was added later does not match."""
    from tkjit.cache import bundle

    if bundle.is_bundle(layer):
        bundle.check_bundled(directory, layer)
