"""One call with three tensors and a float, the kernel excluded: what parsing, checking and dispatching cost."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

import tkjit
from benchmarks.harness import Row, interleaved
from tkjit import In, InOut, Tensor

CALLS, RUNS = 200_000, 15


@tkjit.kernel(
    "inline void nothing(const float* x, const float* y, float* z, float alpha) {}",
    entry="nothing",
    args=True,
    host=True,
)
def nothing(
    x: In[Tensor, "float32", "N"],
    y: In[Tensor, "float32", "N"],
    z: InOut[Tensor, "float32", "N"],
    alpha: float,
) -> None:
    """A call without a kernel."""
    ...


def run() -> list[Row]:
    """tkjit with all its checks, against tvm-ffi without any and torch's own operator with its arithmetic."""
    x, y, z = (torch.randn(8) for _ in range(3))
    ours = tkjit.load(nothing)
    theirs = _tvm_ffi_function()
    candidates: list[Callable[[], float]] = [
        lambda: _microseconds(ours, x, y, z, 1.0),
        lambda: _microseconds(theirs, x, y, z, 1.0),
        lambda: _microseconds_of_add(x, y, z),
    ]
    call, tvm_ffi, add = interleaved(candidates, RUNS)
    what = "call: 3 tensors and a float on the CPU, all checks, no kernel"
    return [
        Row(what, "tvm-ffi, no checks", call, tvm_ffi, "us", 0.7),
        Row(what, "torch.add(out=), 8 elements", call, add, "us"),
    ]


def _microseconds(function: Callable[..., object], x: object, y: object, z: object, alpha: float) -> float:
    function(x, y, z, alpha)
    start = time.perf_counter()
    for _ in range(CALLS):
        function(x, y, z, alpha)
    return (time.perf_counter() - start) / CALLS * 1e6


def _microseconds_of_add(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> float:
    add = torch.add
    start = time.perf_counter()
    for _ in range(CALLS):
        add(x, y, alpha=1.0, out=z)
    return (time.perf_counter() - start) / CALLS * 1e6


def _tvm_ffi_function() -> Callable[..., object]:
    import ninja
    import tvm_ffi.cpp

    os.environ["PATH"] = os.pathsep.join([ninja.BIN_DIR, str(Path(sys.executable).parent), os.environ["PATH"]])
    source = "void nothing(tvm::ffi::TensorView x, tvm::ffi::TensorView y, tvm::ffi::TensorView z, double alpha) {}"
    directory = tempfile.mkdtemp()
    module = tvm_ffi.cpp.load_inline("nothing", cpp_sources=source, functions=["nothing"], build_directory=directory)
    function: Callable[..., object] = module.nothing
    return function
