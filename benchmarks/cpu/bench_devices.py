"""One step over several devices on the CPU: parsing the lists, a launch for each device, and waiting for all."""

from __future__ import annotations

import resource
from functools import partial
from timeit import Timer
from typing import Any

import torch

import tkjit
from benchmarks.harness import Row, interleaved, timed
from tkjit import InOut, ParallelTensor

DEVICES = (1, 2, 4, 8)
CALLS, RUNS = 2000, 15
CALLS_OF_BLOCKS = 20
LIMIT_US = 20.0  # for 8 devices
LIMIT_MIB = 8 << 10  # for 8 devices


@tkjit.kernel("__global__ void nothing(const __grid_constant__ Globals g) {}", entry="nothing", grid=1, block=1)
def nothing(x: InOut[ParallelTensor, "float32", "N"]) -> None:
    """A step that does nothing, with one thread for each device."""


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
    """A step with more concurrent blocks than CPUs, whose threads need stacks."""


RESIDENT = 132  # blocks of a device that run concurrently


@tkjit.kernel(
    """__global__ void meet(const __grid_constant__ Globals g) {
        __shared__ int rank;
        int* const arrived = g.x[0].raw_ptr;
        __syncthreads();
        if (threadIdx.x == 0) {
            rank = atomicAdd_system(arrived, 1);
            while (atomicAdd_system(arrived, 0) < BLOCKS) {}
        }
        __syncthreads();
        if (threadIdx.x == 0) g.x[g.dev_idx].raw_ptr[1 + blockIdx.x] = rank;
    }""".replace("BLOCKS", str(RESIDENT * max(DEVICES))),
    entry="meet",
    grid="N - 1",
    block="threads",
)
def meet(x: InOut[ParallelTensor, "int32", "N"], threads: int) -> None:
    """A step in which each block of every device waits for all the others."""


def run() -> list[Row]:
    """Time steps with all checks, and parsing and checking alone, in microseconds."""
    rows = []
    for count in DEVICES:
        kernel: Any = tkjit.load(nothing)
        x = [torch.ones(8) for _ in range(count)]
        kernel(x)
        timers = [Timer("kernel(x)", globals=locals()), Timer("kernel._collect(x)", globals=locals())]
        step, parsing = interleaved([partial(_microseconds, timer) for timer in timers], RUNS)
        limit = LIMIT_US if count == max(DEVICES) else None
        rows.append(Row(f"step: {count} device(s) on the CPU, an empty kernel", "", step, None, "us", limit))
        rows.append(Row(f"the same call, looked at and not launched: {count}", "", parsing, None, "us"))
    kernel = tkjit.load(reverse)
    x = [torch.randn(4 * 256) for _ in range(max(DEVICES))]
    kernel(x)
    (step,) = interleaved([partial(_microseconds, Timer("kernel(x)", globals=locals()), CALLS_OF_BLOCKS)], RUNS)
    rows.append(Row(f"step: {max(DEVICES)} devices, each of 4 blocks of 256 threads", "", step, None, "us"))
    for threads in (384, 1024):  # in this order, because the peak memory of the process never shrinks
        what = f"step: {max(DEVICES)} devices, {RESIDENT} blocks of {threads} threads each, all waiting for each other"
        seconds, mebibytes = _meeting(threads)
        rows += [Row(what, "", seconds, None, "s"), Row(what, "", mebibytes, None, "MiB", LIMIT_MIB)]
    return rows


def _meeting(threads: int) -> tuple[float, float]:
    """The seconds of a step, and the peak memory of the process in MiB."""
    kernel: Any = tkjit.load(meet)

    def step() -> float:
        x = [torch.zeros(1 + RESIDENT, dtype=torch.int32) for _ in range(max(DEVICES))]
        return timed(lambda: kernel(x, threads))

    step()
    (seconds,) = interleaved([step], 3)
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _microseconds(timer: Timer, calls: int = CALLS) -> float:
    return timer.timeit(calls) / calls * 1e6
