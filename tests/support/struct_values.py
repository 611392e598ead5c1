"""Kernels that take structs by value: CUDA's vector types, and a struct of the source with arrays in it."""

from __future__ import annotations

import tkjit
from tkjit import In, MaxLength, Out, Scalar, Struct, Tensor

F32 = "float32"
PARAMS = {"scale": "double", "weights": ("float", 4), "n": "int", "negative": "bool", "tag": "uint8_t"}

SOURCE = """
namespace mine {
struct Params { double scale; float weights[2][2]; int n; bool negative; unsigned char tag; };
}
__global__ void blend(const float* x, float* y, int length, mine::Params p, float3 shift, const int2 pair) {
    for (int i = threadIdx.x; i < length; i += blockDim.x) {
        const float weight = p.weights[i % 4 / 2][i % 2];
        const float moved = shift.x + 2 * shift.y + 3 * shift.z + pair.x - pair.y;
        const float value = float(p.scale) * weight * x[i] + p.n + p.tag + moved;
        y[i] = p.negative ? -value : value;
    }
}
"""


@tkjit.kernel(SOURCE, entry="blend", grid=1, block=64, args=True, fields="x, y, N, p, shift, pair", computed={"N": "N"})
def blend(
    x: In[Tensor, F32, "N"],
    y: Out[Tensor, F32, "N"],
    p: Scalar[Struct, "mine::Params", PARAMS],
    shift: Scalar[Struct, "float3"] = (1.0, 2.0, 3.0),
    pair: Scalar[Struct, "int2"] = (0, 0),
) -> Tensor:
    """Combine x with all members of the structs."""


@tkjit.kernel(
    """
    __global__ void place(Globals g) {
        const int i = threadIdx.x;
        g.y[i] = g.x[i] + g.origin.x + 10 * g.origin.w + 100 * int(g.extent.y);
    }
    """,
    entry="place",
    grid=1,
    block="N",
)
def place(
    x: In[Tensor, F32, "N"],
    y: Out[Tensor, F32, "N"],
    origin: Scalar[Struct, "float4"],
    extent: Scalar[Struct, "dim3"],
) -> Tensor:
    """Use a rendered struct that contains vector types."""


@tkjit.kernel(
    """
    struct Point { float at[2]; };
    struct Filter { const float* x; float* y; float taps[3]; Point origin; int n; int order[2]; };
    __global__ void filter(const __grid_constant__ Filter f) {
        const int i = threadIdx.x;
        if (i >= f.n) return;
        float sum = f.origin.at[0] - f.origin.at[1];
        for (int t = 0; t < 3; ++t) sum += f.taps[t] * f.x[(i + t) % f.n];
        f.y[i] = sum + f.order[0] - f.order[1];
    }
    """,
    entry="filter",
    struct="Filter",
    grid=1,
    block="N",
    fields="x, y, taps, origin, n, order",
    computed={"n": "N"},
)
def filter_row(
    x: In[Tensor, F32, "N"],
    y: Out[Tensor, F32, "N"],
    taps: Scalar[list[float], "float", MaxLength(3)],
    origin: Scalar[Struct, "Point", {"at": ("float", 2)}] = ((0.5, 0.25),),
    order: Scalar[list[int], "int", MaxLength(2)] = (3, 1),
) -> Tensor:
    """Use the source's own struct, which contains arrays and another struct."""
