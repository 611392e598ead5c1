"""The one line that a person sees while something is built: in a terminal and in a notebook, and nowhere else."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

TICK_S = 0.2
_busy = threading.Lock()


@contextmanager
def announce(what: str) -> Iterator[None]:
    """Show what is built and for how long, until the block ends; a build inside another shows nothing of its own."""
    if not _busy.acquire(blocking=False):
        yield
        return
    show = _display()
    if show is None:
        _busy.release()
        yield
        return
    start = time.monotonic()
    done = threading.Event()

    def tick() -> None:
        while not done.wait(TICK_S):
            show(f"tkjit: compiling {what} ... {time.monotonic() - start:.1f} s", False)

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    outcome = "failed to compile"
    try:
        yield
        outcome = "compiled"
    finally:
        done.set()
        thread.join()
        show(f"tkjit: {outcome} {what} in {time.monotonic() - start:.1f} s", True)
        _busy.release()


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
    if stream is None or not stream.isatty():
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
