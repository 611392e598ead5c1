"""``demo``: multiplies matrices on each device of the machine, checks the result, and prints the times."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from statistics import median
from typing import Any

SIZE = 256
# the matrices are small, so that the measured time is spent loading the kernel, not running it
_WARM_LOAD = """
import time, torch, tkjit
a = torch.randn(8, 8, device="{device}")
start = time.perf_counter()
tkjit.load("gemm")(a, a)
print(time.perf_counter() - start)
"""


def register(commands: Any) -> None:
    """Add the command to the parser."""
    commands.add_parser("demo", help="multiply matrices, check the result and time it").set_defaults(run=_demo)


def _demo(arguments: argparse.Namespace) -> int:
    import torch

    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    return 0 if all([_run(device) for device in devices]) else 1


def _run(device: str) -> bool:
    """Multiply two random matrices on one device, and return whether the result is right."""
    import torch

    import tkjit

    def synchronize() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    a, b = (torch.randn(SIZE, SIZE, device=device) for _ in range(2))
    start = time.perf_counter()
    gemm = tkjit.load("gemm")
    loaded = time.perf_counter()
    first = gemm(a, b)
    synchronize()
    built = time.perf_counter()

    expected = a @ b
    error = (first - expected).abs().max().item()
    again = gemm(a, b)
    right = error <= 1e-5 * SIZE**0.5 * expected.abs().max().item() and torch.equal(first, again)

    times = []
    for _ in range(10):
        begin = time.perf_counter()
        gemm(a, b)
        synchronize()
        times.append(time.perf_counter() - begin)
    warm = subprocess.run([sys.executable, "-c", _WARM_LOAD.format(device=device)], capture_output=True, text=True)
    right = right and warm.returncode == 0

    print(f"gemm on {device}: c = a @ b, {SIZE} x {SIZE} float32, {gemm!r}")
    print(f"  largest error against torch     {error:.1e}  {'right' if right else 'WRONG'}")
    print(f"  load (the runtime)              {loaded - start:8.3f} s")
    print(f"  first call (glue and kernel)    {built - loaded:8.3f} s   compiled, or found in the cache")
    if warm.returncode == 0:
        print(f"  warm load, a fresh process      {float(warm.stdout) * 1e3:8.3f} ms  load and first call")
    else:
        print(warm.stderr, file=sys.stderr)
    print(f"  call                            {median(times) * 1e3:8.3f} ms  median of {len(times)}")
    return right
