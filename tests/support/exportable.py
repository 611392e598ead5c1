"""Kernels that together have every kind of parameter that an export supports."""

from __future__ import annotations

import torch

import tkjit
from tkjit import Align, Generator, In, InOut, MaxLength, Out, Scalar, Scratch, Strided, Tensor

F32 = "float32"


@tkjit.kernel(
    """
    template <class T>
    __global__ void mix(Globals g) {
        const int i = threadIdx.x;
        g.partial[i] = float(g.x(0, i)) * g.alpha + (g.bias ? g.bias[i] : 0.f);
        g.y[i] = T(g.partial[i] + (g.shift ? g.shift.value : 0) + g.flag);
        if (i < g.acc.cols()) g.acc[i] += T(1);
    }
    """,
    entry="mix<T>",
    grid="count",
    block="N",
    variants={"T": (F32, "bfloat16"), "width": (1, 2)},
    constraints=["N % divisor == 0", "M < 100"],
)
def mix(
    x: In[Tensor, "T", "M", "N"],
    acc: InOut[Tensor, "T", "M", Align(16)],
    bias: In[Tensor, F32, "N"] | None = None,
    alpha: float = 1.0,
    count: Scalar[int, "uint8_t"] = 1,
    shift: int | None = None,
    flag: bool = False,
    divisor: int = 1,
    width: int = 1,
    *,
    y: Out[Tensor, "T", "N"],
    partial: Scratch[Tensor, F32, "N"],
) -> Tensor:
    """Compute y = alpha * x[0] + bias + shift + flag, and add 1 to acc in place."""


@tkjit.kernel(
    """
    __global__ void turn(Globals g) {
        for (int i = 0; i < g.x.extent(0); ++i)
            for (int j = 0; j < g.x.extent(1); ++j) g.y(j, i) = g.x(i, j);
    }
    """,
    entry="turn",
    grid=1,
    block=1,
)
def turn(x: In[Strided, F32, "M", "N"], *, y: Out[Strided, F32, "N", "M"]) -> Tensor:
    """Transpose a matrix with any strides."""


@tkjit.kernel(
    """
    __global__ void pick(Globals g) {
        int i = 0;
        for (const int index : g.indices) g.y[i++] = g.x[index];
        for (const double weight : g.weights) g.y[0] += weight;
    }
    """,
    entry="pick",
    grid=1,
    block=1,
)
def pick(
    x: In[Tensor, F32, "N"],
    indices: Scalar[list[int], "int", MaxLength(4)],
    weights: list[float] = (0.25, 0.5),
    *,
    y: Out[Tensor, F32, 4],
) -> Tensor:
    """Gather y[i] = x[indices[i]], and add the weights to y[0]."""


@tkjit.kernel(
    """
    __global__ void add(Globals g) {
        const int i = threadIdx.x;
        float sum = 0;
        for (const auto& x : g.xs)
            if (x) sum += x[i];
        g.y[i] = sum;
    }
    """,
    entry="add",
    grid=1,
    block="N",
)
def add(xs: In[list[Tensor | None], F32, "N", MaxLength(3)], *, y: Out[Tensor, F32, "N"]) -> Tensor:
    """Sum all tensors that are not None."""


@tkjit.kernel(
    "__global__ void noise(Globals g) { g.y[threadIdx.x] = g.rng.uniform(threadIdx.x).x; }",
    entry="noise",
    grid=1,
    block="N",
)
def noise(x: In[Tensor, F32, "N"], rng: In[Generator, "4"], *, y: Out[Tensor, F32, "N"]) -> Tensor:
    """Fill y with uniform random numbers."""


@tkjit.kernel(
    """
    #include <tkjit/containers.h>
    #include <string>
    int64_t describe(tkjit::gl<float> x, std::string text, TkjitDtype dtype, TkjitDevice device) {
        return int64_t(text.size()) * 1000 + dtype * 10 + device.type;
    }
    """,
    entry="describe",
    host=True,
    args=True,
)
def describe(x: In[Tensor, F32, "N"], text: str, dtype: torch.dtype, device: torch.device) -> int:
    """Combine all arguments into one number."""


@tkjit.kernel(
    "template <class T> __global__ void ones(Globals g) { g.y[threadIdx.x] = T(1); }",
    entry="ones<T>",
    grid=1,
    block="n",
    variants={"T": (F32, "int32")},
)
def ones(n: int, T: torch.dtype, device: torch.device, *, y: Out[Tensor, "T", "n"]) -> Tensor:
    """Return n ones on a device."""


ALL = (mix, turn, pick, add, noise, describe, ones)
