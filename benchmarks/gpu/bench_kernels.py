"""Compares the bundled kernels with torch's, by CUDA events; needs a GPU."""

from __future__ import annotations

from collections.abc import Callable

import torch

import tkjit
from benchmarks.harness import Row, interleaved

RUNS, REPEATS = 11, 10


def run() -> list[Row]:
    """Compare each kernel with torch, with random inputs."""
    gemm, softmax = tkjit.load("gemm"), tkjit.load("softmax")
    x = torch.randn(16384, 4096, dtype=torch.bfloat16, device="cuda")
    return [
        *(
            _gemm(gemm, n, dtype)
            for n, dtype in [(1024, torch.bfloat16), (4096, torch.bfloat16), (2048, torch.float32)]
        ),
        _compare("softmax 16384 x 4096 bfloat16", "torch", lambda: softmax(x), lambda: x.softmax(-1)),
    ]


def _gemm(gemm: tkjit.Kernel, n: int, dtype: torch.dtype) -> Row:
    a, b = (torch.randn(n, n, dtype=dtype, device="cuda") for _ in range(2))
    c = torch.empty_like(a)
    what = f"gemm {n}^3 {_name(dtype)}"
    return _compare(what, "torch", lambda: gemm(a, b, out=c), lambda: torch.mm(a, b, out=c))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _compare(what: str, peer: str, ours: Callable[[], object], theirs: Callable[[], object]) -> Row:
    mine, peers = interleaved([lambda: _milliseconds(ours), lambda: _milliseconds(theirs)], RUNS)
    return Row(what, peer, mine, peers, "ms")


def _milliseconds(call: Callable[[], object]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    call()
    start.record()
    for _ in range(REPEATS):
        call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / REPEATS
