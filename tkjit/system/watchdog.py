"""A build's watchdog: ends the compilers of a dead builder.

The watchdog is a separate process, so it survives a killed builder. It then ends the builder's compilers, and removes
their files.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

if __package__:
    from tkjit.system.process import end_working_in, inode_of, start_time, this_process
else:  # run as a script, without site-packages, which makes its start twice as fast: there is no tkjit
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    from process import end_working_in, inode_of, start_time, this_process  # type: ignore[import-not-found, no-redef]

WATCH_S = 0.1


@contextmanager
def watch(directory: str | os.PathLike[str]) -> Iterator[None]:
    """While the block runs, see to it that no compiler at work in a directory outlives this process."""
    import subprocess

    this = this_process()
    inode = inode_of(directory)
    command = [sys.executable, "-I", "-S", __file__, str(this.pid), str(this.started), os.fspath(directory)]
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


def _watch(pid: int, started: int, directory: str) -> None:
    """Wait for a process to end, and tidy up after it. The process ends this one if there is nothing to see to."""
    # held open, so that no other directory gets its inode if somebody removes it
    held = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    inode = inode_of(f"/proc/self/fd/{held}")
    while start_time(pid) == started:
        time.sleep(WATCH_S)
    end_working_in(directory, inode)
    import shutil

    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    with suppress(FileNotFoundError):  # it was quicker than this script
        _watch(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
