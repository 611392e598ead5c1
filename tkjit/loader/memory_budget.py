"""Limits the memory that concurrent builds use. Each build's need is estimated from the peak of previous builds."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tkjit.cache.listing import ListedEntry
from tkjit.loader.plan import Plan

# Estimates for kernels that were never built before: nvcc with templates, and g++.
UNKNOWN_GPU_BYTES = 1 << 30
UNKNOWN_CPU_BYTES = 512 << 20


def estimated_bytes(plan: Plan, known: Iterable[ListedEntry]) -> int:
    """Estimate a build's peak memory from the variant's last build, else the kernel's largest build, else a default."""
    recipe = plan.recipe
    peaks = [
        (entry.manifest.get("what") == plan.what, float(entry.manifest.get("built", 0)), int(peak))
        for entry in known
        if entry.name == recipe.name and entry.arch == recipe.arch and (peak := entry.manifest.get("peak_memory_bytes"))
    ]
    if same := [peak for peak in peaks if peak[0]]:
        return max(same)[2]
    unknown = UNKNOWN_GPU_BYTES if recipe.arch.startswith("sm_") else UNKNOWN_CPU_BYTES
    return max((peak for _, _, peak in peaks), default=unknown)


class MemoryBudget:
    """Lets builds begin while their estimated memory fits. A build may always run alone.

    Parameters
    ----------
    total_bytes : int
        The memory for all builds that run at the same time.
    """

    def __init__(self, total_bytes: int) -> None:
        self._total_bytes = total_bytes
        self._taken_bytes = 0
        self._running = 0
        self._changed = threading.Condition()

    @contextmanager
    def taking(self, size_bytes: int) -> Iterator[None]:
        """Wait until the memory is available, and reserve it while the block runs."""
        with self._changed:
            self._changed.wait_for(lambda: not self._running or self._taken_bytes + size_bytes <= self._total_bytes)
            self._running += 1
            self._taken_bytes += size_bytes
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._taken_bytes -= size_bytes
                self._changed.notify_all()
