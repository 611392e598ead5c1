"""Locks, cached properties and imports that still work after another thread has forked."""

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
    """A lock that is free in a forked child, because the thread that held it in the parent does not exist there."""

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()

    def acquire(self, *, blocking: bool = True) -> bool:
        return self._lock.acquire(blocking)

    def release(self) -> None:
        with suppress(RuntimeError):  # a fork has replaced the lock since the parent acquired it
            self._lock.release()

    # Return the current lock's own C functions, so that `with` calls them directly. With Python functions, a signal
    # handler could raise between the function and the block, and nothing would release the lock.
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
        """``functools.cached_property`` as in Python 3.12, without the lock, which might be held in a forked child."""

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            assert self.attrname is not None
            known = instance.__dict__
            if self.attrname not in known:
                known[self.attrname] = self.func(instance)
            return known[self.attrname]


# tkjit imports these modules when a thread first builds. A forked child could inherit a half-imported module
# without the thread that would finish the import.
_IMPORTED_LATE = ("tkjit.", "torch.utils.cpp_extension", "ninja")
_PATIENCE_S = 10.0  # an import takes less time than this, and a process starts within milliseconds
_POLL_S = 0.001


def _wait_for_threads() -> None:
    """Before a fork, wait for other threads to finish importing modules and starting processes.

    These threads do not exist in the child. So the child would wait forever for the lock of a module that one of them
    was importing. The child would also inherit the write end of the pipe that ``Popen`` reads until the pipe is closed.
    Then the thread in ``Popen`` would wait for the child; and if the child waits for that thread's build lock, both
    would wait forever. A thread that has finished one import may begin another, so this function looks at all threads
    again until none is busy.
    """
    starting = _code_of_starting()
    until = time.monotonic() + _PATIENCE_S
    while any(_must_finish(frame, starting) for frame in _frames_of_others()) and time.monotonic() < until:
        time.sleep(_POLL_S)


def _code_of_starting() -> CodeType | None:
    subprocess = sys.modules.get("subprocess")
    return subprocess.Popen.__init__.__code__ if subprocess else None


def _must_finish(frame: FrameType | None, starting: CodeType | None) -> bool:
    """Return whether a thread is starting a process, importing a late module, or importing anything for tkjit."""
    importing = False
    while frame is not None:
        if frame.f_code is starting:
            return True
        if frame.f_code is _IMPORTING:
            importing = True
            if str(frame.f_locals.get("name")).startswith(_IMPORTED_LATE):
                return True
        # other imports do not count, because a whole program may run inside an import
        elif importing and str(frame.f_globals.get("__name__")).startswith("tkjit."):
            return True
        frame = frame.f_back
    return False


def _frames_of_others() -> list[FrameType]:
    this = threading.get_ident()
    return [frame for thread, frame in sys._current_frames().items() if thread != this]


_IMPORTING: CodeType = importlib._bootstrap._find_and_load.__code__  # type: ignore[attr-defined]
os.register_at_fork(before=_wait_for_threads)
