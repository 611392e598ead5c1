"""A build's watchdog: it ends the compilers of a builder that was killed.

The watchdog is a separate process, so it survives the builder. It then ends the builder's compilers and removes their
files.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tkjit.system.process import end_working_in, inode_of, this_process

SCRIPT = str(Path(__file__).with_name("watchdog_process.py"))


@contextmanager
def watch(directory: str | os.PathLike[str], after_s: float = 0.0) -> Iterator[None]:
    """While the block runs, make sure that no compiler in a directory outlives this process.

    Parameters
    ----------
    after_s : float
        Seconds until the watchdog starts. By then, small files have usually been compiled and need no watchdog.
    """
    inode = inode_of(directory)
    watchdogs: list[subprocess.Popen[bytes]] = []
    timer = threading.Timer(after_s, lambda: watchdogs.extend(_start(directory)))
    timer.start() if after_s else timer.function()
    try:
        yield
    except BaseException:
        end_working_in(directory, inode)  # Ctrl-C may have reached only this process
        raise
    finally:
        if after_s:
            timer.cancel()
            timer.join()
        for watchdog in watchdogs:
            watchdog.kill()
            watchdog.wait()


def _start(directory: str | os.PathLike[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a directory's watchdog. If the watchdog cannot run, go on without one; the next builder then cleans up."""
    this = this_process()
    if not this.started:  # without /proc we cannot tell whether a process is alive
        return
    # without site-packages, Python starts twice as fast
    command = [sys.executable, "-I", "-S", SCRIPT, str(this.pid), str(this.started), os.fspath(directory)]
    with suppress(OSError, ValueError, TypeError):
        # start a new session, because Ctrl-C in a terminal does not reach other sessions
        yield subprocess.Popen(
            command,
            cwd="/",
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
