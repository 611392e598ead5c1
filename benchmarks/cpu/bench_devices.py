"""One step of several devices on the CPU: parsing the lists, a launch for each, and waiting for all of them."""

from __future__ import annotations

from functools import partial
from timeit import Timer
from typing import Any

import torch

import tkjit
from benchmarks.harness import Row, interleaved
from tkjit import InOut, ParallelTensor

DEVICES = (1, 2, 4, 8)
CALLS, RUNS = 2000, 15
LIMIT_US = 20.0  # for 8 devices


@tkjit.kernel("__global__ void nothing(const __grid_constant__ Globals g) {}", entry="nothing", grid=1, block=1)
def nothing(x: InOut[ParallelTensor, "float32", "N"]) -> None:
    """A step of one thread for each device, which does nothing."""


def run() -> list[Row]:
    """Microseconds a step, with all its checks, and of parsing and checking alone."""
    rows = []
    for count in DEVICES:
        kernel: Any = tkjit.load(nothing)
        x = [torch.ones(8) for _ in range(count)]
        kernel(x)
        timers = [Timer("kernel(x)", globals=locals()), Timer("kernel.collect(x)", globals=locals())]
        step, parsing = interleaved([partial(_microseconds, timer) for timer in timers], RUNS)
        limit = LIMIT_US if count == max(DEVICES) else None
        rows.append(Row(f"step: {count} device(s) on the CPU, an empty kernel", "", step, None, "us", limit))
        rows.append(Row(f"the same call, looked at and not launched: {count}", "", parsing, None, "us"))
    return rows


def _microseconds(timer: Timer) -> float:
    return timer.timeit(CALLS) / CALLS * 1e6
