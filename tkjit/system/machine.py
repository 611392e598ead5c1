"""Determines how many cores and how much memory this process may use, within its container's limits."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


def usable_cores() -> int:
    """Return how many cores this process may run on; this is at most its container's quota."""
    cores = len(os.sched_getaffinity(0))
    with suppress(OSError, ValueError):
        quota, period = (_CGROUP / "cpu.max").read_text().split()
        cores = min(cores, max(1, int(quota) // int(period)))  # ValueError if there is no quota ("max")
    return cores


def available_memory_bytes() -> int:
    """Return how much memory can be allocated without swapping and without exceeding the container's limit."""
    available = 1 << 62
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        available = int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]) << 10
    with suppress(OSError, ValueError):
        limit, used = (int((_CGROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        available = min(available, limit - used + _page_cache_bytes())
    return max(0, available)


def _page_cache_bytes() -> int:
    """Return the size of the container's page cache, which counts as used memory but can be reclaimed."""
    with suppress(OSError, ValueError):
        parts = dict(line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines())
        return int(parts.get("inactive_file", 0))
    return 0
