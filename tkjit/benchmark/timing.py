"""Times functions in turns, so that a change of the clock rate affects all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from math import ceil

import torch

Calls = Callable[[int], object]  # makes the i-th call, with the i-th set of inputs

_SECONDS_PER_ROUND = 2e-3
_MAX_CALLS_PER_ROUND = 100
_FIRST_BUSY_CYCLES = 200_000  # 0.1 ms
_MAX_BUSY_CYCLES = 1_000_000_000


def interleaved(
    functions: Mapping[str, Calls], device: torch.device, rounds: int, sets: int = 1
) -> dict[str, list[float]]:
    """Time each function once per round, and return the seconds per call of all rounds, by the function's name.

    On a GPU, this is the device's time: a call's cost on the host is hidden, because the calls of a round are queued
    while the device is still busy.

    Parameters
    ----------
    device : torch.device
        The CPU, or the current GPU.
    sets : int
        The number of sets of inputs. A function that is timed again goes on with the next set.
    """
    timer = _GpuTimer() if device.type == "cuda" else _seconds_on_cpu
    counts, made = {}, dict.fromkeys(functions, 0)
    for name, function in functions.items():
        for i in range(sets):  # the first call compiles, and each set's first call allocates its outputs
            function(i)
        counts[name] = max(1, min(_MAX_CALLS_PER_ROUND, ceil(_SECONDS_PER_ROUND / timer(function, 0, 2))))
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    names = list(functions)
    for number in range(rounds):
        first = number % len(names)  # each function runs after each other one
        for name in names[first:] + names[:first]:
            seconds[name].append(timer(functions[name], made[name], counts[name]))
            made[name] += counts[name]
    return seconds


def _seconds_on_cpu(function: Calls, first: int, count: int) -> float:
    start = time.perf_counter()
    for i in range(first, first + count):
        function(i)
    return (time.perf_counter() - start) / count


class _GpuTimer:
    """Times calls between two events, while the device is busy with something else until all calls are queued."""

    def __init__(self) -> None:
        self._busy_cycles = _FIRST_BUSY_CYCLES

    def __call__(self, function: Calls, first: int, count: int) -> float:
        while True:
            seconds, was_busy = self._attempt(function, first, count)
            # during a function that waits for the device, the device never stays busy
            if was_busy or self._busy_cycles >= _MAX_BUSY_CYCLES:
                return seconds
            self._busy_cycles *= 2

    def _attempt(self, function: Calls, first: int, count: int) -> tuple[float, bool]:
        """Return the seconds per call, and whether the device was busy until the last call was queued."""
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        torch.cuda._sleep(self._busy_cycles)  # type: ignore[no-untyped-call]
        start.record()
        for i in range(first, first + count):
            function(i)
        was_busy = not start.query()  # type: ignore[no-untyped-call]
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3 / count, was_busy
