"""Compares a prepared launch with a loop in C that makes the same launch: one block in the simulator."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from timeit import Timer
from typing import Any

import torch

import tkjit
from benchmarks.harness import Row, interleaved, timed

CALLS, RUNS = 5000, 25
LIMIT = 1.05
LOOP = """
#include <tkjit/arg.h>
const char* loop(const TkjitLauncher* launcher, const TkjitArg* args, int32_t device, void* stream, long calls) {
    const char* error = 0;
    for (long i = 0; i < calls && !error; ++i) error = launcher->launch(launcher, args, device, stream);
    return error;
}
"""


def run() -> list[Row]:
    """Time launches in microseconds."""
    loop = _loop()
    rows = []
    axpy, gemm = tkjit.load("axpy"), tkjit.load("gemm")
    cases = {
        "axpy of 256 elements": (axpy, (torch.randn(256), torch.randn(256))),
        "gemm of 32 x 32 x 32": (gemm, (torch.randn(32, 32), torch.randn(32, 32))),
    }
    for what, (kernel, args) in cases.items():
        step = kernel.prepare(*args)
        call: Any = partial(kernel, *args)
        ours, theirs, full_call = interleaved(
            [partial(_microseconds, step), partial(loop, step), partial(_microseconds, call)], RUNS
        )
        rows.append(Row(f"prepared launch: {what}", "a loop in C", ours, theirs, "us", LIMIT))
        rows.append(Row(f"prepared launch: {what}", "a call", ours, full_call, "us"))
    return rows


def _microseconds(call: Callable[[], object]) -> float:
    return Timer("call()", globals={"call": call}).timeit(CALLS) / CALLS * 1e6


def _loop() -> Callable[[Any], float]:
    """A function that repeats a prepared call's launch, and returns the microseconds of one launch."""
    include = Path(tkjit.__file__).parent / "include"
    with tempfile.TemporaryDirectory() as directory:
        source, library = Path(directory, "loop.c"), Path(directory, "loop.so")
        source.write_text(LOOP)
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-I{include}", source, "-o", library], check=True)
        function = ctypes.CDLL(str(library)).loop
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p, ctypes.c_long]
    function.restype = ctypes.c_char_p

    def one(step: Any) -> float:
        ((launcher, args, device, stream),) = step.launches
        return timed(lambda: function(launcher, args, device, stream, CALLS)) / CALLS * 1e6

    return one
