"""An alarm that raises in the main thread."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def raising_alarm(error: type[Exception]) -> Iterator[None]:
    """In the block the signal of ``signal.alarm`` and ``signal.setitimer`` raises an error."""

    def stop(number: int, frame: object) -> None:
        raise error

    before = signal.signal(signal.SIGALRM, stop)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
