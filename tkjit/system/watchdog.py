"""A build's watchdog: ends the compilers of a dead builder.

The watchdog is a separate process, so it survives a killed builder. It then ends the builder's compilers, and removes
their files.
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
    """While the block runs, see to it that no compiler at work in a directory outlives this process.

    Parameters
    ----------
    after_s : float
        Seconds after which the watchdog starts: most compilers of small files have ended by themselves then.
    """
    inode = inode_of(directory)
    watchdogs: list[subprocess.Popen[bytes]] = []
    timer = threading.Timer(after_s, lambda: watchdogs.extend(_start(directory)))
    timer.start() if after_s else timer.function()
    try:
        yield
    except BaseException:
        end_working_in(directory, inode)  # Ctrl-C, which may have reached this process alone
        raise
    finally:
        if after_s:
            timer.cancel()
            timer.join()
        for watchdog in watchdogs:
            watchdog.kill()
            watchdog.wait()


def _start(directory: str | os.PathLike[str]) -> Iterator[subprocess.Popen[bytes]]:
    """The watchdog of a directory; none where it cannot run: the next builder cleans up."""
    this = this_process()
    if not this.started:  # without /proc nobody knows who lives
        return
    # without site-packages, which makes its start twice as fast
    command = [sys.executable, "-I", "-S", SCRIPT, str(this.pid), str(this.started), os.fspath(directory)]
    with suppress(OSError, ValueError, TypeError):
        # a session of its own, which Ctrl-C in a terminal does not reach
        yield subprocess.Popen(
            command,
            cwd="/",
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
