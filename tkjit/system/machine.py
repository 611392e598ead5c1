"""The cores and memory that this process may use, within the limits of its container."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


def usable_cores() -> int:
    """Return the number of cores that this process may run on, at most its container's quota."""
    cores = len(os.sched_getaffinity(0))
    with suppress(OSError, ValueError):
        quota, period = (_CGROUP / "cpu.max").read_text().split()
        cores = min(cores, max(1, int(quota) // int(period)))  # without a quota the file contains "max": a ValueError
    return cores


def available_memory_bytes() -> int:
    """Return the memory that can be allocated without swapping, at most what the container's limit leaves."""
    available = 1 << 62
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        available = int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]) << 10
    with suppress(OSError, ValueError):
        limit, used = (int((_CGROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        available = min(available, limit - used + _page_cache_bytes())
    return max(0, available)


def _page_cache_bytes() -> int:
    """Return the container's page cache, which counts as used memory but can be reclaimed."""
    with suppress(OSError, ValueError):
        parts = dict(line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines())
        return int(parts.get("inactive_file", 0))
    return 0
