"""Locks, computed attributes and imports that survive a fork by another thread."""

from __future__ import annotations

import functools
import importlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
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
_PATIENCE_S = 10.0  # a process is started within milliseconds


def _wait_for_imports() -> None:
    """Let other threads finish an import before this one forks."""
    for name, module in list(sys.modules.items()):
        if name.startswith(_IMPORTED_LATE) and getattr(getattr(module, "__spec__", None), "_initializing", False):
            with suppress(Exception):  # the thread that imports it gets its error
                importlib.import_module(name)


def _wait_for_starting_processes() -> None:
    """Let other threads finish starting a process before this one forks.

    A child would hold the pipe's end by whose closing ``Popen`` knows that the process has started. If the child then
    waits for the build lock of that thread, both wait forever.
    """
    if (subprocess := sys.modules.get("subprocess")) is None:
        return
    starting = subprocess.Popen.__init__.__code__
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until and any(starting in _codes(frame) for frame in _frames_of_others()):
        time.sleep(0.001)


def _frames_of_others() -> list[FrameType]:
    this = threading.get_ident()
    return [frame for thread, frame in sys._current_frames().items() if thread != this]


def _codes(frame: FrameType | None) -> Iterator[CodeType]:
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back


# the last one that is registered runs first: an import may start a process
os.register_at_fork(before=_wait_for_starting_processes)
os.register_at_fork(before=_wait_for_imports)
