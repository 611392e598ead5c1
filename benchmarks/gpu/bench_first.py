"""The first call of kernels that are not in any cache, compared with CuPy; needs a GPU."""

from __future__ import annotations

import tempfile

from benchmarks.harness import Row, in_fresh_process

KERNELS = 7

_CALLS = '''
import statistics, sys, time, torch

SOURCE = """
__global__ void scale(const float* x, float* y, int n) {{
    if (threadIdx.x < n) y[threadIdx.x] = FACTOR * x[threadIdx.x];
}}
"""

{kernel}

x = torch.randn(256, device="cuda")
seconds = []
for factor in range(2, 2 + {kernels}):
    torch.cuda.synchronize()
    start = time.perf_counter()
    y = call(SOURCE.replace("FACTOR", str(factor)), x)
    torch.cuda.synchronize()
    seconds.append(time.perf_counter() - start)
    assert torch.equal(y, x * factor)
print(statistics.median(seconds[1:]))
'''

_TKJIT = """
import tkjit
from tkjit import In, Out, Tensor

def call(source, x):
    @tkjit.kernel(source, entry="scale", args=True, grid=1, block=256, computed={"n": "N"}, fields="x y n")
    def scale(x: In[Tensor, "float32", "N"], y: Out[Tensor, "float32", "N"]) -> Tensor: ...
    return tkjit.load(scale)(x)
"""

_CUPY = """
import cupy

def call(source, x):
    kernel = cupy.RawKernel(f'extern "C" {source}', "scale")
    y = torch.empty_like(x)
    kernel((1,), (256,), (x.data_ptr(), y.data_ptr(), x.numel()))
    return y
"""


def run() -> list[Row]:
    """Time the first calls of new kernels.

    The first kernel of each process is not counted, because its call also loads libraries and builds shared parts.
    """
    nvrtc, nvcc = (_seconds(_TKJIT, TKJIT_COMPILER=compiler) for compiler in ("nvrtc", "nvcc"))
    what = "first call of a new kernel of one line"
    return [
        Row(what, "tkjit, TKJIT_COMPILER=nvcc", nvrtc, nvcc, "s", 0.35),
        Row(what, "CuPy RawKernel, no checks", nvrtc, _seconds(_CUPY), "s"),
    ]


def _seconds(kernel: str, **environment: str) -> float:
    with tempfile.TemporaryDirectory() as cache:
        code = _CALLS.format(kernel=kernel, kernels=KERNELS)
        return in_fresh_process(code, TKJIT_CACHE=cache, CUPY_CACHE_DIR=cache, **environment)
