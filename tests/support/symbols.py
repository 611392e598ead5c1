"""Kernels with constants, and with variables that persist between launches."""

from __future__ import annotations

import tkjit
from tkjit import Constant, In, InOut, Member, Out, Tensor

F32 = "float32"
SOURCE = """
__constant__ float taps[3];
namespace mine {
__constant__ int offsets[2][2];
struct State { int launches; float last; };
__device__ State state;
__device__ float history[2][3];
}
__device__ unsigned long long counter;

__global__ void convolve(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) {
        ++counter;
        ++mine::state.launches;
        mine::state.last = taps[0];
        mine::history[counter % 2][0] = taps[0];
    }
    if (i < n) y[i] = taps[0] * x[i] + taps[1] * x[(i + 1) % n] + taps[2] * x[(i + 2) % n] + mine::offsets[i % 2][1];
}
"""


@tkjit.kernel(
    SOURCE,
    entry="convolve",
    grid="cdiv(N, 64)",
    block=64,
    args=True,
    fields="x, y, n",
    computed={"n": "N"},
    symbols="counter, mine::state, mine::history",
)
def convolve(
    x: In[Tensor, F32, "N"],
    taps: Constant[Tensor, F32, 3],
    offsets: Constant[Tensor, "int32", 2, 2, Member("mine::offsets")],
    y: Out[Tensor, F32, "N"],
) -> Tensor:
    """Convolve x with three taps, which are constants."""
    moved = taps[0] * x + taps[1] * x.roll(-1) + taps[2] * x.roll(-2)
    return moved + offsets[:, 1].repeat((len(x) + 1) // 2)[: len(x)]


@tkjit.kernel(
    """
    __constant__ double factor = 1;
    __global__ void scaled(Globals g) { g.x[threadIdx.x] *= factor; }
    """,
    entry="scaled",
    grid=1,
    block="N",
    symbols="factor",
)
def scaled(x: InOut[Tensor, F32, "N"]) -> Tensor:
    """Use a rendered struct, and a constant with an initial value."""
