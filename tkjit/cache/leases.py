"""Leases protect entries in use: until a process ends, it holds a shared lock for each entry that it has opened.

Each lock is on one byte of a common file, so a process with a thousand kernels needs only one descriptor. The locks
belong to the open file description (``F_OFD_SETLK``), so a forked child, which uses the same kernels, keeps them.
Locking writes nothing to the disk, and the system releases the locks when the process ends.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tkjit.system import files
from tkjit.system.fork_safe import ForkSafeLock

FILE = "in-use"


class Leases:
    """The locks of one process on the entries of one cache."""

    def __init__(self, directory: Path, *, shared: bool = False) -> None:
        self._path = directory / FILE
        self._shared = shared
        self._descriptor: int | None = None
        self._lock = ForkSafeLock()

    def hold(self, entry: Path) -> bool:
        """Take an entry's lease for this process. Do nothing if the disk is read-only or does not support locks.

        Returns
        -------
        bool
            False if another process is removing the entry.
        """
        with suppress(OSError), self._lock:
            if self._descriptor is None:
                self._descriptor = files.open_lock(self._path, shared=self._shared, writable=False)
            return _try(self._descriptor, fcntl.F_RDLCK, entry) is not False
        return True

    @contextmanager
    def unused(self, entry: Path) -> Iterator[bool | None]:
        """Yield whether an entry is unused, and keep it unused until the block ends. Yield None if this is unknown."""
        try:
            descriptor = files.open_lock(self._path, shared=self._shared)
        except OSError:
            yield None
            return
        try:
            yield _try(descriptor, fcntl.F_WRLCK, entry)
        finally:
            os.close(descriptor)


def _try(descriptor: int, kind: int, entry: Path) -> bool | None:
    """Try to lock an entry's byte. Return whether that worked, or None if the file system does not support locks."""
    try:
        _lock(descriptor, kind, entry)
    except OSError as error:
        return False if error.errno in (errno.EAGAIN, errno.EACCES) else None
    return True


def _lock(descriptor: int, kind: int, entry: Path) -> None:
    """Lock an entry's byte.

    The byte's offset depends on both keys of the entry, because variants with the same headers have equal ``deps_key``.
    """
    place = "/".join(str(entry).rsplit("/", 4)[1:])  # <abi>/<arch>/<name>-<build_key>/<deps_key>
    offset = int(files.sha256_of(place.encode())[:16], 16) >> 2
    # the fields of struct flock: type, whence, start, length, pid
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_SET, offset, 1, 0))
