"""Build locks: one process builds while the others wait. A killed builder does not block the others.

The lock only avoids duplicate builds; results are correct without it. The system releases a ``flock`` when the holder's
process ends, but not while a forked child still holds it. So waiters do not block in ``flock``, but poll the holder. If
the holder has ended, or gave no heartbeat for ``HEARTBEAT_TIMEOUT_S``, all waiters move on to the next lock
(``.lock-1``).
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
POLL_S = 0.05  # the initial interval between two polls
LONGEST_POLL_S = 0.25  # the interval after some seconds: frequent polls by many waiters would keep a core busy
HEARTBEAT_S = 1.0  # the interval between two heartbeats
HEARTBEAT_TIMEOUT_S = 30.0
NAME_TIMEOUT_S = 2.0  # how long the holder of a lock may take to write its name
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


@dataclass(frozen=True)
class Holder:
    """Describes the holder of a lock, as written to the lock's file.

    Parameters
    ----------
    kernel : str
        What the holder builds, such as ``gemm (T=float32) for sm_90a``.
    since : float
        When the build started, in seconds since the epoch.
    token : str
        Identifies this build.
    staging : str
        The working directory of the holder's compilers.
    """

    process: Process
    kernel: str
    since: float
    token: str
    staging: str = ""


class Lock:
    """A lock that this process holds. The lock's file names the holder.

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
        """Whether this process holds a lock. It does not if the file system does not support locks."""
        return self._descriptor is not None

    def write_holder(self, staging: Path | None) -> None:
        """Write to the lock's file who the holder is, and in which directory its compilers work."""
        if self._descriptor is None:
            return
        content = asdict(self.holder) | {"process": self.holder.process._asdict(), "staging": str(staging or "")}
        with suppress(OSError):  # if the disk is full, the waiters see no name
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, json.dumps(content).encode(), 0)


def is_locked(directory: Path) -> bool:
    """Return whether a process is building in a directory, on any machine whose locks are visible here."""
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
        Called at each poll. It may raise an exception to stop waiting.
    report_wait : callable
        Called at each poll with the holder and how many seconds this process has waited.

    Yields
    ------
    Lock
        On a file system that does not support locks, the object holds no lock, and each process builds for itself.
    """
    this = this_process()
    # a failed build stores its error with this token, so that only processes that waited for this build raise the error
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
            lock.write_holder(None)
            yield lock
    finally:
        if descriptor is not None:
            _release(descriptor)


class _HolderIsGone(Exception):
    """The holder has ended or is unresponsive, but its lock remains."""


def _take(
    path: Path, shared: bool, awaited: set[str], check: Callable[[], None], report_wait: Callable[[Holder, float], None]
) -> int | None:
    """Take a lock and return its descriptor, or None if the file system does not support locks.

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
                    os.ftruncate(descriptor, 0)  # erase the name of a builder that was killed
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
    """Check that a lock's file is still at its path, because clearing a cache removes locks that nobody holds."""
    if not os.path.samestat(os.fstat(descriptor), os.stat(path)):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


class _HolderMonitor:
    """Watches a lock's holder: its heartbeat and, if it runs on this machine, its process."""

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
    """Parse the holder from the content of a lock's file.

    Raises
    ------
    ValueError, TypeError, KeyError, AttributeError
        If the content does not describe a holder.
    """
    process = Process(**content.pop("process"))
    holder = Holder(process, **content)
    texts = (process.machine, process.host, holder.kernel, holder.token, holder.staging)
    numbers = (process.pid, process.started)
    right = all(isinstance(one, str) for one in texts) and all(isinstance(one, int) for one in numbers)
    if not right or not isinstance(holder.since, int | float):
        raise TypeError("not a holder")
    return holder


@contextmanager
def _heartbeats(descriptor: int | None) -> Iterator[None]:
    """Touch the lock's file regularly while the block runs. A thread does this, so a forked child does not."""
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
    # the build is done, so disk errors no longer matter
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    with suppress(OSError):
        os.close(descriptor)
