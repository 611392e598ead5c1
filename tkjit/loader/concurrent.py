"""Runs a build in a thread while the caller's thread runs another one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from tkjit.cache import Cache
from tkjit.loader.plan import Plan


class ConcurrentBuild(NamedTuple):
    """A build that runs at the same time as another one: the plan that messages name, and the function that works."""

    plan: Plan
    work: Callable[[], object]


@contextmanager
def running_beside(other: ConcurrentBuild | None, cache: Cache) -> Iterator[None]:
    """Run a build in a thread during the block. Its exceptions are not raised here, because it only saves time."""
    if other is None:
        yield
        return

    # Do not use the thread's join and is_alive: after a Ctrl-C in join, CPython 3.11 reports that the thread has ended.
    done = threading.Event()

    def work() -> None:
        try:
            with suppress(KeyboardInterrupt):  # raised by the interrupt below
                other.work()
        finally:
            done.set()

    thread = threading.Thread(target=work)
    try:
        thread.start()
        try:
            yield
        except Exception:
            done.wait()
            raise
        done.wait()
    except BaseException as error:
        if not isinstance(error, Exception):  # Ctrl-C, either in the block or while waiting for the thread
            cache.interrupt(lambda: done.is_set() or thread.ident is None)
        raise
