"""The cache. It searches the layers and its own directory, and builds into its own directory."""

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
    """A warm record: its entries, further content, and the fingerprint that validates both."""

    entries: list[Entry]
    more: Any
    fingerprint: bytes


class Cache(Directory):
    """A directory of entries, together with read-only layers that are searched first.

    Parameters
    ----------
    root, abi, shared
        See ``Directory``.
    layers : sequence of Path
        ``TKJIT_CACHE_READONLY``.
    limit_bytes : int or None
        ``TKJIT_CACHE_LIMIT``: if the cache is larger than this after a build, the least recently used entries are
        removed.
    remote : RemoteSettings, optional
        ``TKJIT_CACHE_REMOTE`` and its related settings.
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
        # replaced by a compiled function once the runtime is available
        self.unchanged: Callable[[bytes], bool] = fingerprints.unchanged
        self._warned_of_private_root = False
        # a string, because each operation on a Path adds 5 us to a warm call
        self._records = str(self.base / fingerprints.DIRECTORY)

    @cached_property
    def remote(self) -> Remote | None:
        """The cache on a server, or None. Its module is imported lazily, so warm calls do not pay for the import."""
        if self._remote_settings is None or not self._remote_settings.url:
            return None
        from tkjit.cache.remote import Remote

        return Remote(self._remote_settings, self.abi, self.root / LAYOUT, shared=self.shared)

    def interrupt(self, is_over: Callable[[], bool]) -> None:
        """End all builds in this process, including those that are about to begin, until ``is_over`` returns true."""
        from tkjit.cache import building

        while True:
            self.interruptions += 1
            building.end_compilers(self)
            if is_over():
                return
            time.sleep(0.02)  # a build may be about to start its compiler

    # ---- lookup

    def warm_lookup(self, warm_key: str) -> Entry | None:
        """Return the entry that the last lookup with this warm key found, if none of its files has changed since.

        Parameters
        ----------
        warm_key : str
            Identifies all of the recipe's inputs except files, so that no text has to be rendered for a hit.
        """
        record = self.read_record(warm_key)
        if record is None or not self.unchanged(record.fingerprint):
            return None
        entry = replace(record.entries[0], fingerprint=record.fingerprint)
        return entry if self.use(entry) else None

    def read_record(self, warm_key: str) -> Record | None:
        """Read a record, which may be outdated. Fail if it or one of its entries is in an untrusted directory."""
        self.trust.check(self._records)
        if (found := fingerprints.read_record(f"{self._records}/{warm_key}")) is None:
            return None
        (subjects, more), fingerprint = found
        for directory, *_ in subjects:
            self.trust.check(directory)
        entries = [Entry(Path(directory), shared_object, module) for directory, shared_object, module in subjects]
        return Record(entries, more, fingerprint)

    def write_record(self, warm_key: str, entries: Sequence[Entry], fingerprint: bytes, more: object = None) -> None:
        """Write a record of some entries and the fingerprint of their files, without duplicate files.

        Parameters
        ----------
        more : object
            Further content for the record, which JSON must be able to represent.
        """
        directory = Path(self._records)
        self.trust.check(self._records)
        with suppress(OSError):
            self.make_directory(directory)
        self.trust.check(self._records)  # check again, because another user may have created it meanwhile
        subjects = [[str(one.directory), one.shared_object_name, one.module] for one in entries]
        once = b"".join(dict.fromkeys(fingerprint.splitlines(keepends=True)))
        fingerprints.write_record(directory / warm_key, [subjects, more], once, shared=self.shared)

    def lookup(
        self, recipe: Recipe, *, exclude: Entry | None = None, warm_key: str = "", inputs: bytes = b""
    ) -> Entry | None:
        """Return an entry of a recipe whose dependencies are unchanged since the build, or None on a miss.

        Parameters
        ----------
        exclude : Entry, optional
            An entry that must not be returned.
        warm_key : str
            The key under which the next ``warm_lookup`` will find the entry.
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
        """Search the layers and the cache for an entry, comparing the contents of files with the recorded hashes."""
        for layer in (*(() if recipe.stays_here else self.layers), self.root):
            is_root = layer == self.root
            # without compilers nothing can be built here, so the tools and other libraries' headers need not match
            exact = is_root and recipe.tools is not None
            for directory in self.candidates(recipe, layer):
                self.trust.check(str(directory))
                with suppress(DamagedError):
                    if not is_root:
                        _check_bundled(directory, layer)
                    manifest = read_manifest(directory)
                    # taken before the contents are read, so that a file edited in between will not match next time
                    fingerprint = fingerprints.of(fingerprinted_paths(directory, manifest, recipe, exact=exact))
                    entry = open_entry(directory, recipe, exact=exact)
                    if entry is not None and entry != exclude:
                        return replace(entry, fingerprint=fingerprint)
        return None

    # ---- builds

    def fetch(
        self, recipe: Recipe, *, what: str = "", report_wait: Callable[[str], None] = lambda text: None
    ) -> Entry | None:
        """Fetch a recipe's entry from the remote cache without building anything. Return None if it is not there.

        Raises
        ------
        CacheError
            If the directory cannot be written, or the settings of the remote cache are invalid.
        """
        if self.remote is None:
            return None
        from tkjit.cache import building

        self._prepare(recipe)
        entry = building.fetch(self, self.lookup, recipe, what or recipe.name, report_wait)
        return entry if entry is not None and self.use(entry) else None

    def _prepare(self, recipe: Recipe) -> None:
        """Make the root. Check who can write to it and to a recipe's directory. Check the remote cache's settings."""
        with self.writing():
            self.make_directory(self.root)
        self.trust.check(str(self.root))  # check now that the root exists: another user may have created it first
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
        """Return a recipe's entry. Build it with ``builder(staging directory)`` unless another process builds it first.

        Parameters
        ----------
        what : str
            What is built, as named in messages.
        replacing : Entry, optional
            An intact entry that cannot be loaded here. The new entry replaces it.
        report_wait : callable
            Called with a description of the process for which this process waits.
        watch_after_s : float, optional
            Seconds until a watchdog starts. If this process is killed, the watchdog ends the builder's compilers. None
            for no watchdog.

        Raises
        ------
        CacheError
            If the directory cannot be written, or a header kept changing while it was compiled.
        CompileError
            If this process waited for another process's build, and that build failed.

        The builder's own exceptions propagate and leave no entry.
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
    """If a layer is a bundle, compare an entry with the bundle's hashes, so that entries added later are rejected."""
    from tkjit.cache import bundle

    if bundle.is_bundle(layer):
        bundle.check_bundled(directory, layer)
