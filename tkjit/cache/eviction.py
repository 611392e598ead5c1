"""Shrinks a cache: removes the least recently used entries, except those in use."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from tkjit.cache import fingerprints
from tkjit.cache.directory import Directory
from tkjit.cache.entry import LAYOUT
from tkjit.cache.listing import ListedEntry, leftovers, list_entries, size_bytes
from tkjit.cache.locks import LOCK
from tkjit.cache.staging import STAGING
from tkjit.system import files
from tkjit.system.process import end_working_in

EVICTED = ".evicted-"
# without locks nobody can tell whether an entry is in use, so entries are kept for this time after their last use
IDLE_S = 7 * 86400.0


def prune(cache: Directory, limit_bytes: int) -> list[ListedEntry]:
    """Remove leftovers, and then the least recently used entries until the cache is within a size limit.

    Returns
    -------
    list of ListedEntry
        The entries that were removed.
    """
    cache.check_trust()
    entries = sorted(list_entries(cache.root), key=lambda one: one.used)
    excess = sum(one.size_bytes for one in entries) + sum(map(size_bytes, leftovers(cache.root))) - limit_bytes
    if excess > 0:
        excess -= _remove_leftovers(cache.root)
        _remove_records(cache.root)
    removed = []
    for entry in entries:
        if excess <= 0:
            break
        if _evict(cache, entry):
            removed.append(entry)
            excess -= entry.size_bytes
    return removed


def keep_newest(cache: Directory, arch: str, limit_bytes: int) -> list[ListedEntry]:
    """Remove the least recently used entries of one ``arch`` until the remaining ones are within a size limit.

    The most recently used entry always remains.

    Returns
    -------
    list of ListedEntry
        The entries that were removed.
    """
    entries = sorted((one for one in list_entries(cache.root) if one.arch == arch), key=lambda one: one.used)
    excess = sum(one.size_bytes for one in entries) - limit_bytes
    removed = []
    for entry in entries[:-1]:  # keep the last one, which has just been built
        if excess <= 0:
            break
        if _evict(cache, entry):
            removed.append(entry)
            excess -= entry.size_bytes
    return removed


def clear(cache: Directory, wanted: Callable[[ListedEntry], bool] = lambda one: True) -> list[ListedEntry]:
    """Remove leftovers and every entry that ``wanted`` selects, except entries in use. Return the removed entries."""
    cache.check_trust()
    removed = [one for one in list_entries(cache.root) if wanted(one) and _evict(cache, one)]
    _remove_leftovers(cache.root)
    _remove_records(cache.root)
    _remove_empty(cache.root)
    return removed


def _remove_leftovers(root: Path) -> int:
    """Remove everything that is not an entry, and return the number of bytes removed."""
    total = 0
    for directory in leftovers(root):
        total += size_bytes(directory)
        if directory.name.startswith(STAGING):
            end_working_in(directory)
        shutil.rmtree(directory, ignore_errors=True)
    return total


def _remove_records(root: Path) -> None:
    """Remove all warm records. Later calls write new records when they need them."""
    for directory in files.below(root / LAYOUT, "*", fingerprints.DIRECTORY):
        shutil.rmtree(directory, ignore_errors=True)
    for scratch in files.below(root / LAYOUT, f"{files.SCRATCH}*"):  # killed processes leave these files
        with suppress(OSError):
            scratch.unlink()


def _evict(cache: Directory, one: ListedEntry) -> bool:
    """Remove an entry unless a process uses it. Return whether it was removed."""
    with cache.leases.unused(one.directory) as unused:
        if unused is False or (unused is None and time.time() - one.used < IDLE_S):
            return False
        gone = one.directory.with_name(f"{EVICTED}{secrets.token_hex(4)}")
        try:
            # renaming is atomic, so a lookup finds either the whole entry or nothing
            one.directory.rename(gone)
        except OSError:
            return False
        shutil.rmtree(gone, ignore_errors=True)
    return True


def _remove_empty(root: Path) -> None:
    """Remove directories that contain only locks that nobody holds."""
    for directory in files.below(root / LAYOUT, "*", "*", "*"):
        # hold the locks until the directory is gone: a process that waits for one then makes the directory again
        with suppress(OSError), ExitStack() as locks:
            names = os.listdir(directory)
            if not all(name.startswith(LOCK) for name in names):
                continue
            for name in names:
                lock = files.open_lock(directory / name)
                locks.callback(os.close, lock)
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for name in names:
                os.unlink(directory / name)
            os.rmdir(directory)


def in_use(cache: Directory) -> Iterator[ListedEntry]:
    """Yield the entries on which a process holds a lease."""
    for entry in list_entries(cache.root):
        with cache.leases.unused(entry.directory) as unused:
            if unused is False:
                yield entry
