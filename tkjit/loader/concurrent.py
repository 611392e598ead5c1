"""A build in a thread, while another one goes on in the caller's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from tkjit.cache import Cache


class ConcurrentBuild(NamedTuple):
    """A build beside another one: its name for a person, and the work, which is told when the other one is over."""

    what: str
    work: Callable[[threading.Event], object]


@contextmanager
def running_beside(other: ConcurrentBuild | None, cache: Cache) -> Iterator[None]:
    """Do the work in a thread while the block runs. It only saves time, and raises no exception."""
    if other is None:
        yield
        return

    # instead of the thread's join and is_alive: after a Ctrl-C in a join, CPython 3.11 reports the thread as ended
    done, over = threading.Event(), threading.Event()

    def work() -> None:
        try:
            with suppress(KeyboardInterrupt):  # it was interrupted below
                other.work(over)
        finally:
            done.set()

    thread = threading.Thread(target=work)
    try:
        thread.start()
        try:
            yield
        except Exception:
            over.set()
            done.wait()
            raise
        over.set()
        done.wait()
    except BaseException as error:
        if not isinstance(error, Exception):  # Ctrl-C, in the block or while this waits for the thread
            cache.interrupt(lambda: done.is_set() or thread.ident is None)
        raise
