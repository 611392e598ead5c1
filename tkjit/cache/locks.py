"""Build locks: one process builds and the others wait. A killed builder blocks no other process.

The lock only avoids duplicate builds; results are correct without it. The system releases a ``flock`` when its process
ends, unless a forked child of that process lives on and holds it. So a waiter does not sleep in the lock: it polls the
holder. If the holder's process has ended, or had no heartbeat for ``HEARTBEAT_TIMEOUT_S``, the waiter goes on to the
next lock (``.lock-1``), and so do the other waiters.
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
POLL_S = 0.05  # between two looks at the holder, at first
LONGEST_POLL_S = 0.25  # after some seconds: of many processes that wait, the looks alone would take a core
HEARTBEAT_S = 1.0  # between two heartbeats
HEARTBEAT_TIMEOUT_S = 30.0
NAME_TIMEOUT_S = 2.0  # how long a lock may be held by a process that has not yet written its name
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


@dataclass(frozen=True)
class Holder:
    """The holder of a lock, as it wrote itself.

    Parameters
    ----------
    kernel : str
        The kernel that it builds: ``gemm (T=float32) for sm_90a``.
    since : float
        The start of the build, in seconds since the epoch.
    staging : str
        The working directory of its compilers.
    """

    process: Process
    kernel: str
    since: float
    token: str
    staging: str = ""


class Lock:
    """A lock that this process holds, and the file that names the holder.

    Parameters
    ----------
    awaited : frozenset of str
        The tokens of the builders for which this process waited.
    """

    def __init__(self, descriptor: int | None, holder: Holder, awaited: frozenset[str]) -> None:
        self.holder = holder
        self.awaited = awaited
        self._descriptor = descriptor

    @property
    def is_held(self) -> bool:
        """Whether there is a lock: some file systems have none."""
        return self._descriptor is not None

    def say(self, staging: Path | None) -> None:
        """Write the holder of the lock, and the working directory of its compilers, to the file."""
        if self._descriptor is None:
            return
        content = asdict(self.holder) | {"process": self.holder.process._asdict(), "staging": str(staging or "")}
        with suppress(OSError):  # a full disk: the waiters get no name
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, json.dumps(content).encode(), 0)


def is_locked(directory: Path) -> bool:
    """Whether a process builds in a directory, on any machine whose locks this one sees."""
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
    report_wait: Callable[[Holder, float], None],
    *,
    shared: bool = False,
) -> Iterator[Lock]:
    """Hold the build lock of a directory.

    Parameters
    ----------
    check : callable
        Called at each poll; it raises to stop waiting.
    report_wait : callable
        Called at each poll with the holder and the seconds waited.

    Yields
    ------
    Lock
        On a file system without locks it holds nothing, and each process builds for itself.
    """
    this = this_process()
    # the token identifies this build: the error of a failed build is for the processes that waited for it
    holder = Holder(this, kernel, time.time(), f"{this.machine}-{this.pid}-{this.started}-{time.monotonic_ns()}")
    awaited: set[str] = set()
    descriptor = None
    try:
        for number in itertools.count():
            path = directory / (f"{LOCK}-{number}" if number else LOCK)
            with suppress(_HolderIsGone):
                descriptor = _take(path, shared, awaited, check, report_wait)
                break
        lock = Lock(descriptor, holder, frozenset(awaited))
        with _heartbeats(descriptor):
            lock.say(None)
            yield lock
    finally:
        if descriptor is not None:
            _release(descriptor)


class _HolderIsGone(Exception):
    """The holder has ended, but its lock remains."""


def _take(
    path: Path, shared: bool, awaited: set[str], check: Callable[[], None], report_wait: Callable[[Holder, float], None]
) -> int | None:
    """Take a lock and return its descriptor; None without locks.

    Raises
    ------
    FileNotFoundError
        If another process has removed the lock's file by clearing the cache.
    """
    descriptor = files.open_lock(path, shared=shared)
    monitor = _HolderMonitor(path)
    start = time.monotonic()
    try:
        while True:
            check()
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _check_in_place(descriptor, path)
                with suppress(OSError):
                    os.ftruncate(descriptor, 0)  # the name of a killed builder, for which no process would wait
                taken, descriptor = descriptor, -1
                return taken
            except OSError as error:
                if error.errno in _NO_LOCKS:
                    return None
                if error.errno not in (errno.EWOULDBLOCK, errno.EINTR):
                    raise
            holder = monitor.look()
            if holder is not None:
                awaited.add(holder.token)
                report_wait(holder, time.monotonic() - start)
            if monitor.holder_is_gone:
                raise _HolderIsGone
            time.sleep(min(LONGEST_POLL_S, max(POLL_S, (time.monotonic() - start) / 20)))
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _check_in_place(descriptor: int, path: Path) -> None:
    """Check that a lock's file is still at its path: clearing a cache removes locks without a holder."""
    if not os.path.samestat(os.fstat(descriptor), os.stat(path)):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


class _HolderMonitor:
    """Watches a lock's holder by its heartbeat, and by its process if that is on this machine."""

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
    def holder_is_gone(self) -> bool:
        silent = time.monotonic() - self._last_change
        if self._holder is None:
            return silent > NAME_TIMEOUT_S
        return not self._holder.process.is_alive or silent > HEARTBEAT_TIMEOUT_S


def _holder_of(content: Any) -> Holder:
    """The holder that a lock's file names.

    Raises
    ------
    ValueError, TypeError, KeyError, AttributeError
        If the file names no holder.
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
def _heartbeats(descriptor: int | None) -> Iterator[None]:
    """Touch the lock's file while the block runs: the heartbeat. A forked child of this process does not."""
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
    # the build is done, so errors of the disk do not matter
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    with suppress(OSError):
        os.close(descriptor)
