"""Shows a line of progress during a build: in a terminal and in a notebook, and in a log if the build takes long."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tkjit.system.fork_safe import ForkSafeLock

TICK_S = 0.2
LONG_S = 2.0  # a build that takes longer is mentioned in a log
STALE_S = 0.5  # a reason for waiting that was not repeated for so long holds no more
REMIND_S = 30.0
_busy = ForkSafeLock()


@contextmanager
def show_progress(what: str, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show what is built and for how long, until the block ends; a build inside another shows nothing of its own.

    Parameters
    ----------
    quiet : bool
        Whether to show nothing.

    Yields
    ------
    callable
        Takes the reason for which this process waits instead of compiling. Where nobody watches a line, each reason
        goes to standard error once in a while: whoever reads the log of a job should see what it waits for.
    """
    if quiet:
        yield lambda reason: None
    elif not _busy.acquire(blocking=False):
        yield _Log(what).say
    else:
        try:
            with _shown(what) as say:
                yield say
        finally:
            _busy.release()


@contextmanager
def _shown(what: str) -> Iterator[Callable[[str], None]]:
    show = _display()
    line = _Line(what, show) if show else _Log(what)
    thread = threading.Thread(target=line.tick, daemon=True)
    thread.start()
    outcome = "failed to compile"
    try:
        yield line.say
        outcome = line.outcome
    finally:
        line.done.set()
        thread.join()
        line.end(outcome)


class _Line:
    """The line, while it is there."""

    def __init__(self, what: str, show: Callable[[str, bool], None]) -> None:
        self.done = threading.Event()
        self._what = what
        self._show = show
        self._start = time.monotonic()
        self._reason, self._said = "", -math.inf

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start

    @property
    def outcome(self) -> str:
        return "waited for" if self._is_waiting else "compiled"

    @property
    def _is_waiting(self) -> bool:
        return time.monotonic() - self._said < STALE_S

    def say(self, reason: str) -> None:
        self._reason, self._said = reason, time.monotonic()

    def tick(self) -> None:
        while not self.done.wait(TICK_S):
            compiling = f"compiling {self._what} ... {self.seconds:.1f} s"
            waiting = f"waiting for {self._what}: {self._reason}"
            self._show(f"tkjit: {waiting if self._is_waiting else compiling}", False)

    def end(self, outcome: str) -> None:
        self._show(f"tkjit: {outcome} {self._what} in {self.seconds:.1f} s", True)


class _Log:
    """Says on standard error that a build takes long, once, and what is waited for, now and then."""

    outcome = ""  # which nobody is told

    def __init__(self, what: str) -> None:
        self.done = threading.Event()
        self._what = what
        self._said = -math.inf

    def say(self, reason: str) -> None:
        if time.monotonic() - self._said >= REMIND_S:
            self._write(f"waiting for {self._what}: {reason}")

    def tick(self) -> None:
        if not self.done.wait(LONG_S) and self._said == -math.inf:
            self._write(f"compiling {self._what} ...")

    def end(self, outcome: str) -> None:
        """What failed raises an error, which the log has."""

    def _write(self, text: str) -> None:
        self._said = time.monotonic()
        if sys.stderr is not None:
            with suppress(OSError, ValueError):  # a pipe that nobody reads, a closed file
                print(f"tkjit: {text}", file=sys.stderr, flush=True)


@contextmanager
def silence() -> Iterator[None]:
    """Show no line while the block runs, whose own display stands there."""
    with _busy:
        yield


def _display() -> Callable[[str, bool], None] | None:
    """How a line is shown and replaced here; None where nobody watches: a pipe, a log file."""
    if (notebook := _notebook_display()) is not None:
        return notebook
    stream = sys.stderr
    if stream is None or getattr(stream, "closed", False) or not stream.isatty():
        return None

    def show(text: str, last: bool) -> None:
        # return to the first column, erase the line
        stream.write(f"\r\x1b[2K{text}" + ("\n" if last else ""))
        stream.flush()

    return show


def _notebook_display() -> Callable[[str, bool], None] | None:
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or getattr(shell, "kernel", None) is None:
        return None
    handle = ipython.display.display({"text/plain": ""}, raw=True, display_id=True)

    def show(text: str, last: bool) -> None:
        handle.update({"text/plain": text}, raw=True)

    return show
