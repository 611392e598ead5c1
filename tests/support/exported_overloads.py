"""A kernel with overloads, whose gradient calls an overload and another kernel."""

from __future__ import annotations

import tkjit
from tkjit import In, Out, Tensor

STRETCH = """
template <class T> __global__ void stretch(Globals g) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < g.x.numel()) g.y.raw_ptr[i] = T(g.factor) * g.x.raw_ptr[i];
}
"""
VECTOR = {"entry": "stretch<T>", "grid": "cdiv(N, 32)", "block": 32, "variants": {"T": ("float32", "float64")}}
MATRIX = {**VECTOR, "grid": "cdiv(M * N, 32)", "variants": {"T": ("float32",)}}


@tkjit.kernel(
    "__global__ void negate(Globals g) { g.y[threadIdx.x] = -g.x[threadIdx.x]; }", entry="negate", grid=1, block="N"
)
def negate(x: In[Tensor, "float32", "N"], y: Out[Tensor, "float32", "N"]) -> Tensor:
    """Changes the sign."""
    return -x


def stretched(grad, factor):
    return stretch(grad, factor)


def gradient(grad_y, factor):
    return negate(negate(stretched(grad_y, factor)))


def gradient_of_matrix(grad_y, factor, divisor):
    return stretch(grad_y, factor, divisor=divisor)


@tkjit.kernel(STRETCH, **VECTOR, backward=gradient)
def stretch(x: In[Tensor, "T", "N"], factor: float = 2.0, *, y: Out[Tensor, "T", "N"]) -> Tensor:
    """Multiplies a vector by a factor."""
    return factor * x


@stretch.overload(STRETCH, **MATRIX, backward=gradient_of_matrix)
def stretch(x: In[Tensor, "T", "M", "N"], factor: float, divisor: int = 1, *, y: Out[Tensor, "T", "M", "N"]) -> Tensor:
    """Multiplies a matrix by a factor."""
    return factor * x
