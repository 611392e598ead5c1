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
CALLS_OF_BLOCKS = 20
LIMIT_US = 20.0  # for 8 devices


@tkjit.kernel("__global__ void nothing(const __grid_constant__ Globals g) {}", entry="nothing", grid=1, block=1)
def nothing(x: InOut[ParallelTensor, "float32", "N"]) -> None:
    """A step of one thread for each device, which does nothing."""


@tkjit.kernel(
    """__global__ void reverse(const __grid_constant__ Globals g) {
        __shared__ float all[256];
        float* const x = g.x[g.dev_idx].raw_ptr + 256 * blockIdx.x;
        all[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        x[threadIdx.x] = all[255 - threadIdx.x];
    }""",
    entry="reverse",
    grid="N // 256",
    block=256,
    constraints="N % 256 == 0",
)
def reverse(x: InOut[ParallelTensor, "float32", "N"]) -> None:
    """A step of more blocks at once than there are CPUs, whose threads need stacks."""


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
    kernel = tkjit.load(reverse)
    x = [torch.randn(4 * 256) for _ in range(max(DEVICES))]
    kernel(x)
    (step,) = interleaved([partial(_microseconds, Timer("kernel(x)", globals=locals()), CALLS_OF_BLOCKS)], RUNS)
    rows.append(Row(f"step: {max(DEVICES)} devices, each of 4 blocks of 256 threads", "", step, None, "us"))
    return rows


def _microseconds(timer: Timer, calls: int = CALLS) -> float:
    return timer.timeit(calls) / calls * 1e6
