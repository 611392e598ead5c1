"""A build's watchdog: ends the compilers of a dead builder.

The watchdog is a separate process, so it survives a killed builder. It then ends the builder's compilers, and removes
their files.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tkjit.system.process import end_working_in, inode_of, this_process

SCRIPT = str(Path(__file__).with_name("watchdog_process.py"))


@contextmanager
def watch(directory: str | os.PathLike[str]) -> Iterator[None]:
    """While the block runs, see to it that no compiler at work in a directory outlives this process."""
    this = this_process()
    inode = inode_of(directory)
    # without site-packages, which makes its start twice as fast
    command = [sys.executable, "-I", "-S", SCRIPT, str(this.pid), str(this.started), os.fspath(directory)]
    watchdog = None
    # where it cannot run, the next builder cleans up; without /proc nobody knows who lives
    with suppress(OSError, ValueError, TypeError):
        if not this.started:
            raise ValueError
        # a session of its own, which Ctrl-C in a terminal does not reach
        watchdog = subprocess.Popen(
            command,
            cwd="/",
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    try:
        yield
    except BaseException:
        end_working_in(directory, inode)  # Ctrl-C, which may have reached this process alone
        raise
    finally:
        if watchdog is not None:
            watchdog.kill()
            watchdog.wait()
