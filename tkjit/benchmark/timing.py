"""Times functions in turns, so that a change of the clock rate affects all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from math import ceil

import torch

Calls = Callable[[int], object]  # makes the i-th call, with the i-th set of inputs

_SECONDS_PER_ROUND = 2e-3
_MAX_CALLS_PER_ROUND = 100
# The host queues a call within this time. The device is kept busy for as long, so that it never waits for the host.
_QUEUEING_S_PER_CALL = 30e-6
_MAX_CLOCK_HZ = 2e9


def interleaved(functions: Mapping[str, Calls], device: torch.device, rounds: int) -> dict[str, list[float]]:
    """Time each function once per round, and return the seconds per call of all rounds, by the function's name.

    On a GPU, this is the device's time: a call's cost on the host is hidden, because the calls of a round are queued
    while the device is still busy.
    """
    timed = _seconds_on_gpu if device.type == "cuda" else _seconds_on_cpu
    counts = {}
    for name, function in functions.items():
        function(0)  # the first call compiles
        counts[name] = max(1, min(_MAX_CALLS_PER_ROUND, ceil(_SECONDS_PER_ROUND / timed(function, 2))))
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    names = list(functions)
    for number in range(rounds):
        first = number % len(names)  # each function runs after each other one
        for name in names[first:] + names[:first]:
            seconds[name].append(timed(functions[name], counts[name]))
    return seconds


def _seconds_on_cpu(function: Calls, count: int) -> float:
    start = time.perf_counter()
    for i in range(count):
        function(i)
    return (time.perf_counter() - start) / count


def _seconds_on_gpu(function: Calls, count: int) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda._sleep(int(count * _QUEUEING_S_PER_CALL * _MAX_CLOCK_HZ))  # type: ignore[no-untyped-call]
    start.record()
    for i in range(count):
        function(i)
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3 / count
