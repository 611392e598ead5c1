"""Shows a build's progress: as one line in a terminal or notebook, and in a log only if the build takes long."""

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
LONG_S = 2.0  # in a log, only builds that take longer than this are mentioned
STALE_S = 0.5  # a reason for waiting expires unless it is repeated within this time
REMIND_S = 30.0
ESTIMATE_AFTER_S = 1.0  # short builds end before anybody needs an estimate
_busy = ForkSafeLock()


@contextmanager
def show_progress(
    what: str, *, quiet: bool = False, estimate_s: Callable[[], float | None] = lambda: None
) -> Iterator[Callable[[str], None]]:
    """Until the block ends, show what is being built and for how long. A build inside another build gets no line.

    Parameters
    ----------
    quiet : bool
        Whether to show nothing.
    estimate_s : callable
        Returns how many seconds the build will take, or None. It is called only if the build takes a while.

    Yields
    ------
    callable
        Call it with the reason why this process waits instead of compiling. Without a terminal or notebook, the reason
        is printed to standard error from time to time, so that a job's log shows what the job is waiting for.
    """
    if quiet:
        yield lambda reason: None
    elif not _busy.acquire(blocking=False):
        # in a notebook, the line of the outer build is enough, and text on standard error would look like an error
        yield (lambda reason: None) if _notebook() else _Log(what).report
    else:
        try:
            with _shown(what, estimate_s) as report:
                yield report
        finally:
            _busy.release()


@contextmanager
def _shown(what: str, estimate_s: Callable[[], float | None]) -> Iterator[Callable[[str], None]]:
    show = _display()
    line = _Line(what, show, estimate_s) if show else _Log(what)
    thread = threading.Thread(target=line.tick, daemon=True)
    thread.start()
    outcome = "failed to compile"
    try:
        yield line.report
        outcome = line.outcome
    finally:
        line.done.set()
        thread.join()
        line.end(outcome)


class _Line:
    """Shows the line in a terminal or notebook."""

    def __init__(self, what: str, show: Callable[[str, bool], None], estimate_s: Callable[[], float | None]) -> None:
        self.done = threading.Event()
        self._what = what
        self._show = show
        self._estimate_s = estimate_s
        self._start = time.monotonic()
        self._reason, self._reported = "", -math.inf

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start

    @property
    def outcome(self) -> str:
        return "waited for" if self._is_waiting else "compiled"

    @property
    def _is_waiting(self) -> bool:
        return time.monotonic() - self._reported < STALE_S

    def report(self, reason: str) -> None:
        self._reason, self._reported = reason, time.monotonic()

    def tick(self) -> None:
        total_s: float | None = None
        is_estimated = False
        while not self.done.wait(TICK_S):
            if not is_estimated and self.seconds > ESTIMATE_AFTER_S:
                total_s, is_estimated = self._estimate_s(), True
            left = f", about {total_s - self.seconds:.0f} s left" if total_s and total_s - self.seconds >= 1 else ""
            compiling = f"compiling {self._what} ... {self.seconds:.1f} s{left}"
            waiting = f"waiting for {self._what}: {self._reason}"
            self._show(f"tkjit: {waiting if self._is_waiting else compiling}", False)

    def end(self, outcome: str) -> None:
        self._show(f"tkjit: {outcome} {self._what} in {self.seconds:.1f} s", True)


class _Log:
    """Prints to standard error: one notice if a build takes long, and from time to time what the build waits for."""

    outcome = ""  # not shown in a log

    def __init__(self, what: str) -> None:
        self.done = threading.Event()
        self._what = what
        self._reported = -math.inf

    def report(self, reason: str) -> None:
        if time.monotonic() - self._reported >= REMIND_S:
            self._write(f"waiting for {self._what}: {reason}")

    def tick(self) -> None:
        if not self.done.wait(LONG_S) and self._reported == -math.inf:
            self._write(f"compiling {self._what} ...")

    def end(self, outcome: str) -> None:
        """Do nothing, because the error of a failed build appears in the log anyway."""

    def _write(self, text: str) -> None:
        self._reported = time.monotonic()
        if sys.stderr is not None:
            with suppress(OSError, ValueError):  # the pipe has no reader, or the file is closed
                print(f"tkjit: {text}", file=sys.stderr, flush=True)


@contextmanager
def silence() -> Iterator[None]:
    """Show no progress line while the block runs, for blocks that have their own display."""
    with _busy:
        yield


def _display() -> Callable[[str, bool], None] | None:
    """Return a function that shows or replaces the line, or None if the output is a pipe or a log file."""
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


def _notebook() -> Any:
    """Return the module IPython if this process is a notebook's, otherwise None."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return ipython if getattr(shell, "kernel", None) is not None else None


def _notebook_display() -> Callable[[str, bool], None] | None:
    ipython = _notebook()
    if ipython is None:
        return None
    handle = ipython.display.display({"text/plain": ""}, raw=True, display_id=True)

    def show(text: str, last: bool) -> None:
        handle.update({"text/plain": text}, raw=True)

    return show
