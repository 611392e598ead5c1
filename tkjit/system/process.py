"""Identifies processes, checks whether they are alive, and ends those that work in a directory.

All information is read from ``/proc``. This file uses only the standard library, because the watchdog, which runs
without site-packages, imports it.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from functools import cache
from typing import NamedTuple

if __package__:
    from tkjit.system.start_time import start_time
else:
    from start_time import start_time  # type: ignore[import-not-found, no-redef]

END_S = 5.0


class Process(NamedTuple):
    """Identifies a process uniquely across machines and time. A pid alone does not, because pids are reused.

    Parameters
    ----------
    machine : str
        Identifies the current boot of a machine, and the PID namespace in which ``pid`` is valid.
    host : str
        The machine's name, for messages.
    started : int
        When the process started, in clock ticks since boot.
    """

    machine: str
    host: str
    pid: int
    started: int

    @property
    def is_here(self) -> bool:
        """Whether the process is on this machine, so that ``/proc`` shows if it is alive."""
        return self.machine == this_machine()

    @property
    def is_alive(self) -> bool:
        """Whether the process is alive. A process on another machine counts as alive, because we cannot find out."""
        if not self.is_here:
            return True
        started = start_time(self.pid)
        return started == self.started or (started is None and (_is_hidden(self.pid) or not _has_proc()))


def this_process() -> Process:
    pid = os.getpid()
    return Process(this_machine(), os.uname().nodename, pid, start_time(pid) or 0)


@cache
def this_machine() -> str:
    import hashlib

    boot, namespace = os.uname().nodename, 0
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        boot, namespace = file.read().strip(), os.stat("/proc/self/ns/pid").st_ino
    return hashlib.sha256(f"{boot} {namespace}".encode()).hexdigest()[:12]


def _has_proc() -> bool:
    return start_time(os.getpid()) is not None


def _is_hidden(pid: int) -> bool:
    """Return whether a process is alive, but hidden in ``/proc`` (``hidepid``) because it is another user's."""
    try:
        with open(f"/proc/{pid}/stat", "rb"):
            return False  # it is visible, so `start_time` found none because it is a zombie
    except OSError:
        pass
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        pass
    return False


def working_in(directory: str | os.PathLike[str], inode: tuple[int, int] | None = None) -> list[int]:
    """List the processes whose working directory is this directory or one below it, like a build's compilers.

    Parameters
    ----------
    inode : (int, int), optional
        The directory's device and inode. They identify the directory even after it has been moved or removed.
    """
    root = os.path.realpath(directory)
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else []:
        if name.isdigit():
            with suppress(OSError):  # the process has ended, or is another user's
                place = os.readlink(f"/proc/{name}/cwd").removesuffix(" (deleted)")
                inside = place == root or place.startswith(root + os.sep)
                if (inside or inode_of(f"/proc/{name}/cwd") == inode) and start_time(int(name)) is not None:
                    found.append(int(name))
    return found


def inode_of(path: str | os.PathLike[str]) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def name_of(pid: int) -> str:
    """Return a process's name, such as ``cicc``, or an empty string if the process does not exist."""
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except OSError:
        return ""


def peak_memory_bytes(pid: int) -> int:
    """Return a process's peak memory so far, or 0 if it has ended."""
    with suppress(OSError, ValueError, StopIteration), open(f"/proc/{pid}/status") as file:
        line = next(line for line in file if line.startswith("VmHWM:"))
        return int(line.split()[1]) << 10
    return 0


class MemoryWatch:
    """Records the peak memory of any process that works in a directory while a block runs.

    The watch polls twenty times a second. Use it for processes that other code starts and waits for. The ``ru_maxrss``
    of a child process is useless, because it starts with the value of this process.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.peak_bytes = 0
        self._directory = directory
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        while not self._done.wait(0.05):
            self.peak_bytes = max(self.peak_bytes, *map(peak_memory_bytes, working_in(self._directory)), 0)

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()


def end_working_in(directory: str | os.PathLike[str], inode: tuple[int, int] | None = None) -> None:
    """Kill all processes that ``working_in`` finds, including processes that start in the meantime."""
    import signal

    deadline = time.monotonic() + END_S
    while (
        found := [pid for pid in working_in(directory, inode) if pid != os.getpid()]
    ) and time.monotonic() < deadline:
        for pid in found:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)
