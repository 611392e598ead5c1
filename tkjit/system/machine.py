"""The cores and the memory that this process may use, within the limits of its container."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


def usable_cores() -> int:
    """The cores that this process may run on; in a container not more than its quota."""
    cores = len(os.sched_getaffinity(0))
    with suppress(OSError, ValueError):
        quota, period = (_CGROUP / "cpu.max").read_text().split()
        cores = min(cores, max(1, int(quota) // int(period)))  # "max" is no number: there is no quota
    return cores


def available_memory_bytes() -> int:
    """What can be taken without swapping; in a container not more than its limit leaves."""
    available = 1 << 62
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        available = int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]) << 10
    with suppress(OSError, ValueError):
        limit, used = (int((_CGROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        available = min(available, limit - used + _page_cache_bytes())
    return max(0, available)


def _page_cache_bytes() -> int:
    """What counts as a container's memory and gives way to others."""
    with suppress(OSError, ValueError):
        parts = dict(line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines())
        return int(parts.get("inactive_file", 0))
    return 0
