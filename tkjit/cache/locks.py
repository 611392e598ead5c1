"""Whose turn it is to build: locks that only save work, and that a killed builder cannot keep.

A ``flock`` is given back when its process ends, unless a child forked from that process lives on and holds it. So a
waiter does not sleep in the lock: it looks again and again who holds it, and once that process is gone, or has given no
sign for ``SILENT_S``, goes on to the next lock (``.lock-1``), where those that waited with it line up anew.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tkjit.system import files
from tkjit.system.process import Process, this_process

LOCK = ".lock"
POLL_S = 0.05
HEARTBEAT_S = 1.0  # between two heartbeats
SILENT_S = 30.0
UNNAMED_S = 2.0  # how long a lock may be held by a process that has not yet written its name
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


@dataclass(frozen=True)
class Holder:
    """Who holds a lock, as it wrote itself.

    Parameters
    ----------
    kernel : str
        What it builds: ``gemm (T=float32) for sm_90a``.
    since : float
        When it began, in seconds since the epoch.
    staging : str
        Where its compilers are at work.
    """

    process: Process
    kernel: str
    since: float
    token: str
    staging: str = ""


class Lock:
    """A lock that this process holds, and the file that says so.

    Parameters
    ----------
    awaited : frozenset of str
        The tokens of the builders that were waited for.
    """

    def __init__(self, descriptor: int | None, holder: Holder, awaited: frozenset[str]) -> None:
        self.holder = holder
        self.awaited = awaited
        self._descriptor = descriptor

    @property
    def is_held(self) -> bool:
        """Whether there is a lock: on some file systems there is none."""
        return self._descriptor is not None

    def say(self, staging: Path | None) -> None:
        """Write down who holds the lock, and where its compilers will be at work."""
        if self._descriptor is None:
            return
        content = asdict(self.holder) | {"process": self.holder.process._asdict(), "staging": str(staging or "")}
        with suppress(OSError):  # a full disk: the others wait for whom they do not know
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, json.dumps(content).encode(), 0)


def is_locked(directory: Path) -> bool:
    """Whether somebody builds in a directory, on any machine whose locks this one sees."""
    for path in files.below(directory, f"{LOCK}*"):
        with suppress(OSError):
            descriptor = files.open_lock(path)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                return error.errno not in _NO_LOCKS
            finally:
                os.close(descriptor)
    return False


@contextmanager
def hold_build_lock(
    directory: Path,
    kernel: str,
    check: Callable[[], None],
    waiting: Callable[[Holder, float], None],
    *,
    shared: bool = False,
) -> Iterator[Lock]:
    """Hold the right to build in a directory.

    Parameters
    ----------
    check : callable
        Called at each look; it raises to stop waiting.
    waiting : callable
        Called at each look with the holder and the seconds waited.

    Yields
    ------
    Lock
        Where the file system knows no locks it holds nothing: each process then builds for itself.
    """
    this = this_process()
    # an identifier of this turn: a failure that the builder leaves is meant for those who waited for it
    holder = Holder(this, kernel, time.time(), f"{this.machine}-{this.pid}-{this.started}-{time.monotonic_ns()}")
    awaited: set[str] = set()
    descriptor = None
    try:
        for number in itertools.count():
            path = directory / (f"{LOCK}-{number}" if number else LOCK)
            with suppress(_HolderIsGone):
                descriptor = _take(path, shared, awaited, check, waiting)
                break
        lock = Lock(descriptor, holder, frozenset(awaited))
        with _signs_of_life(descriptor):
            lock.say(None)
            yield lock
    finally:
        if descriptor is not None:
            _release(descriptor)


class _HolderIsGone(Exception):
    """And its lock is not."""


def _take(
    path: Path, shared: bool, awaited: set[str], check: Callable[[], None], waiting: Callable[[Holder, float], None]
) -> int | None:
    """The descriptor of a lock that was taken; None where there are no locks.

    Raises
    ------
    FileNotFoundError
        If somebody who clears the cache has removed it in the meantime.
    """
    descriptor = files.open_lock(path, shared=shared)
    watch = _Watch(path)
    start = time.monotonic()
    try:
        while True:
            check()
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _check_in_place(descriptor, path)
                with suppress(OSError):
                    os.ftruncate(descriptor, 0)  # of a builder that was killed, whom others would not wait for
                taken, descriptor = descriptor, -1
                return taken
            except OSError as error:
                if error.errno in _NO_LOCKS:
                    return None
                if error.errno not in (errno.EWOULDBLOCK, errno.EINTR):
                    raise
            holder = watch.look()
            if holder is not None:
                awaited.add(holder.token)
                waiting(holder, time.monotonic() - start)
            if watch.is_over:
                raise _HolderIsGone
            time.sleep(POLL_S)
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _check_in_place(descriptor: int, path: Path) -> None:
    """Whether a lock is the one that others will find: who clears a cache removes locks that nobody holds."""
    if not os.path.samestat(os.fstat(descriptor), os.stat(path)):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


class _Watch:
    """Watches a lock's holder: by its process where that is on this machine, by its heartbeat anywhere."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sign: object = None
        self._last_change = time.monotonic()
        self._holder: Holder | None = None

    def look(self) -> Holder | None:
        try:
            sign = os.stat(self._path).st_mtime_ns
            self._holder = _holder_of(files.read_json(self._path))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            self._holder, sign = None, 0
        if sign != self._sign:
            self._sign, self._last_change = sign, time.monotonic()
        return self._holder

    @property
    def is_over(self) -> bool:
        silent = time.monotonic() - self._last_change
        if self._holder is None:
            return silent > UNNAMED_S
        return not self._holder.process.is_alive or silent > SILENT_S


def _holder_of(content: Any) -> Holder:
    """Who a lock's file says holds it.

    Raises
    ------
    ValueError, TypeError, KeyError, AttributeError
        If it says nothing of the kind.
    """
    process = Process(**content.pop("process"))
    holder = Holder(process, **content)
    texts = (process.machine, process.host, holder.kernel, holder.token, holder.staging)
    numbers = (process.pid, process.started)
    right = all(isinstance(one, str) for one in texts) and all(isinstance(one, int) for one in numbers)
    if not right or not isinstance(holder.since, int | float):
        raise TypeError("it names nobody")
    return holder


@contextmanager
def _signs_of_life(descriptor: int | None) -> Iterator[None]:
    """Touch the lock's file while the block runs; a child forked from this process does not."""
    if descriptor is None:
        yield
        return
    done = threading.Event()

    def touch() -> None:
        while not done.wait(HEARTBEAT_S):
            with suppress(OSError):
                os.utime(descriptor)

    thread = threading.Thread(target=touch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _release(descriptor: int) -> None:
    # whatever the disk says now, the build is done
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    with suppress(OSError):
        os.close(descriptor)
