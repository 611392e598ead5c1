"""An alarm that raises in the main thread."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def raising_alarm(error: type[Exception]) -> Iterator[None]:
    """Raise an error when an alarm of ``signal.alarm`` or ``signal.setitimer`` goes off in the block."""

    def stop(number: int, frame: object) -> None:
        raise error

    before = signal.signal(signal.SIGALRM, stop)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
