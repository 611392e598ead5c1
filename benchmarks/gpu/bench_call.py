"""The host's cost of launching a small kernel, against torch's own operator; needs a GPU."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

import tkjit
from benchmarks.harness import Row, interleaved

CALLS, RUNS = 2_000, 15


def run() -> list[Row]:
    """Microseconds a call, the queue emptied between runs; random inputs."""
    x, y, z = (torch.randn(1024, device="cuda") for _ in range(3))
    axpy = tkjit.load("axpy")
    ours, theirs = interleaved(
        [lambda: _microseconds(lambda: axpy(x, y, 0.5)), lambda: _microseconds(lambda: torch.add(x, y, out=z))], RUNS
    )
    return [Row("axpy, 1024 float32: host time of a call", "torch.add(out=)", ours, theirs, "us", 1.0)]


def _microseconds(call: Callable[[], object]) -> float:
    call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    elapsed = time.perf_counter() - start
    torch.cuda.synchronize()
    return elapsed / CALLS * 1e6
