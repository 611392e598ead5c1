"""Kernels for tensors with more than 2**31 elements."""

from __future__ import annotations

import tkjit
from tkjit import In, InOut, Out, Tensor

ELEMENTS = 2**31 + 16
_POINTER = {"args": True, "grid": 1, "block": 1, "fields": "x N", "computed": {"N": "N"}}


@tkjit.kernel("__global__ void mark(unsigned char* x, size_t n) { x[n - 1] = 7; }", entry="mark", **_POINTER)
def mark(x: InOut[Tensor, "uint8", "N"]) -> None: ...


@tkjit.kernel("__global__ void narrow(unsigned char* x, int n) { x[n - 1] = 7; }", entry="narrow", **_POINTER)
def narrow(x: InOut[Tensor, "uint8", "N"]) -> None: ...


@tkjit.kernel(
    "__global__ void ends(const signed char* x, signed char* y, size_t n) { y[0] = 1; y[2 * n - 1] = x[n - 1]; }",
    entry="ends",
    args=True,
    grid=1,
    block=1,
    fields="x y N",
    computed={"N": "N"},
)
def ends(x: In[Tensor, "int8", "N"], y: Out[Tensor, "int8", "2 * N"]) -> Tensor: ...


@tkjit.kernel(
    "__global__ void in_layout(const __grid_constant__ Globals g) { g.x(0, 0) = 7; }",
    entry="in_layout",
    grid=1,
    block=1,
)
def in_layout(x: InOut[Tensor, "uint8", "N"]) -> None: ...


@tkjit.kernel(
    "struct Own { tkjit::gl<unsigned char> x; };\n"
    "__global__ void in_own_layout(const __grid_constant__ Own g) { g.x(0, 0) = 7; }",
    entry="in_own_layout",
    struct="Own",
    grid=1,
    block=1,
)
def in_own_layout(x: InOut[Tensor, "uint8", "N"]) -> None: ...
