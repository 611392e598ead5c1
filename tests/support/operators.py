"""Kernels with operators, and calls that use the operators: compiled, or under a profiler."""

from __future__ import annotations

import torch

import tkjit
from tkjit import In, Out, Tensor

SCALE = """
template <class T> __global__ void scale(Globals g) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < g.x.cols()) g.y[i] = T(g.factor) * g.x[i];
}
"""
LAUNCH = {"entry": "scale<T>", "grid": "cdiv(N, 32)", "block": 32, "variants": {"T": ("float32", "float64")}}


def gradient(grad_y, factor):
    return grad_y * factor


@tkjit.kernel(SCALE, **LAUNCH, backward=gradient)
def scale(x: In[Tensor, "T", "N"], y: Out[Tensor, "T", "N"], *, factor: float = 2.0) -> Tensor:
    """Multiply x by a factor."""
    return factor * x


@tkjit.kernel(
    "__global__ void parts(Globals g) {\n"
    "    const float x = g.x[threadIdx.x];\n"
    "    g.twice[threadIdx.x] = 2 * x;\n"
    "    g.square[threadIdx.x] = x * x;\n"
    "}",
    entry="parts",
    grid=1,
    block="N",
)
def parts(
    x: In[Tensor, "float32", "N"],
    twice: Out[Tensor, "float32", "N"],
    square: Out[Tensor, "float32", "N"],
) -> tuple[Tensor, Tensor]:
    """Return 2 * x and x * x."""
    return 2 * x, x * x


def compiled(function, **options):
    return torch.compile(function, fullgraph=True, **options)


# ---- calls under a profiler


def profiled(call, *args, **kwargs):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        return call(*args, **kwargs)
