"""The process of a watchdog: ``python -I -S watchdog_process.py PID STARTED DIRECTORY``. See ``watchdog``.

It starts with each build, and most builds end well: until then it imports next to nothing.
"""

import os
import sys
import time

sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # there is no tkjit without site-packages
from start_time import start_time  # type: ignore[import-not-found]

WATCH_S = 0.1


def watch(pid: int, started: int, directory: str) -> None:
    """Wait for a process to end, and tidy up after it. The process ends this one if there is nothing to see to."""
    try:
        # held open, so that no other directory gets its inode if somebody removes it
        held = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:  # the process was quicker than this script
        return
    while start_time(pid) == started:
        time.sleep(WATCH_S)
    import shutil

    from process import end_working_in, inode_of  # type: ignore[import-not-found]

    end_working_in(directory, inode_of(f"/proc/self/fd/{held}"))
    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    watch(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
