"""Locks, computed attributes and imports that survive a fork by another thread."""

from __future__ import annotations

import functools
import importlib
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any


class ForkSafeLock:
    """A lock that a forked child finds open: the thread that held it in the parent does not exist in the child."""

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()

    def acquire(self, *, blocking: bool = True) -> bool:
        return self._lock.acquire(blocking)

    def release(self) -> None:
        with suppress(RuntimeError):  # renewed since it was taken: this is the child of who took it
            self._lock.release()

    # C functions of the lock as it is now: between those of Python and the block, a signal's handler may raise, and
    # nobody would release the lock
    @property
    def __enter__(self) -> Callable[[], bool]:
        return self._lock.__enter__

    @property
    def __exit__(self) -> Callable[..., None]:
        return self._lock.__exit__


if TYPE_CHECKING or sys.version_info >= (3, 12):
    cached_property = functools.cached_property
else:

    class cached_property(functools.cached_property):
        """``functools.cached_property`` as of Python 3.12: without the lock, which a forked child may find held."""

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            assert self.attrname is not None
            known = instance.__dict__
            if self.attrname not in known:
                known[self.attrname] = self.func(instance)
            return known[self.attrname]


# imported when a thread first builds; a child would find them half imported, by a thread that it does not have
_IMPORTED_LATE = ("tkjit.", "torch.utils.cpp_extension", "ninja")
_PATIENCE_S = 10.0  # an import takes less, and a process is started within milliseconds
_POLL_S = 0.001


def _wait_for_threads() -> None:
    """Let other threads finish what a child could not: an import, and the start of a process.

    A child would wait forever for the lock of a module that a thread imports which the child does not have. It would
    also hold the pipe's end by whose closing ``Popen`` knows that the process has started: if the child then waits for
    the build lock of that thread, both wait forever. A thread that has finished may begin the next import, so all are
    looked at again until none is at one.
    """
    starting = _code_of_starting()
    until = time.monotonic() + _PATIENCE_S
    while any(_must_finish(frame, starting) for frame in _frames_of_others()) and time.monotonic() < until:
        time.sleep(_POLL_S)


def _code_of_starting() -> CodeType | None:
    subprocess = sys.modules.get("subprocess")
    return subprocess.Popen.__init__.__code__ if subprocess else None


def _must_finish(frame: FrameType | None, starting: CodeType | None) -> bool:
    """Whether a thread starts a process, or imports something late or for tkjit."""
    importing = False
    while frame is not None:
        if frame.f_code is starting:
            return True
        if frame.f_code is _IMPORTING:
            importing = True
            if str(frame.f_locals.get("name")).startswith(_IMPORTED_LATE):
                return True
        # not any import: a program may run inside one, for as long as it lives
        elif importing and str(frame.f_globals.get("__name__")).startswith("tkjit."):
            return True
        frame = frame.f_back
    return False


def _frames_of_others() -> list[FrameType]:
    this = threading.get_ident()
    return [frame for thread, frame in sys._current_frames().items() if thread != this]


_IMPORTING: CodeType = importlib._bootstrap._find_and_load.__code__  # type: ignore[attr-defined]
os.register_at_fork(before=_wait_for_threads)
