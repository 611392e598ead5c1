"""Locks that survive a fork."""

from __future__ import annotations

import os
import threading
from contextlib import suppress


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

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()
