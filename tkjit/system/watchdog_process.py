"""The process of a watchdog: ``python -I -S watchdog_process.py PID STARTED DIRECTORY``. See ``watchdog``.

A watchdog is started for each build, but most builds end normally. So it imports almost nothing until it has to act.
"""

import os
import sys
import time

sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # tkjit cannot be imported without site-packages
from start_time import start_time  # type: ignore[import-not-found]

WATCH_S = 0.1


def watch(pid: int, started: int, directory: str) -> None:
    """Wait for a process to end, and clean up after it. When a build ends normally, its process kills this watchdog."""
    try:
        # keep the directory open, so that no other directory can get its inode if this one is removed
        held = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:  # the build finished before this script started
        return
    while start_time(pid) == started:
        time.sleep(WATCH_S)
    import shutil

    from process import end_working_in, inode_of  # type: ignore[import-not-found]

    end_working_in(directory, inode_of(f"/proc/self/fd/{held}"))
    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    watch(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
