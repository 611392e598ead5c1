"""A kernel over several devices, and its arguments on the CPU."""

from __future__ import annotations

import torch

import tkjit
from tkjit import In, InOut, Out, ParallelTensor, Tensor

SOURCE = """
#include <tkjit/device_barrier.cuh>

template <typename T>
__global__ void total(const __grid_constant__ Globals g) {
    if (g.fails == g.dev_idx) __trap();
    for (int i = 0; i < g.meetings; ++i) tkjit::device_barrier(g.signals, blockIdx.x, g.dev_idx, g.num_devices);
    for (int i = threadIdx.x; i < g.x.cols(); i += blockDim.x) {
        T sum = 0;
        for (int device = 0; device < g.num_devices; ++device) sum += g.x[device][i];
        g.y[i] = sum * g.own[0] + T(g.dev_idx);
    }
}
"""


@tkjit.kernel(SOURCE, entry="total<T>", grid=1, block=64, variants={"T": ("float32", "float64")})
def total(
    x: In[ParallelTensor, "T", "N"],
    own: In[Tensor, "T", 1],
    signals: InOut[ParallelTensor, "int32", "S"],
    y: Out[Tensor, "T", "N"],
    meetings: int = 1,
    fails: int = -1,
) -> Tensor:
    """Sum over devices, then multiply by ``own``, which differs by device, and add the device's index."""


def parts(count: int, *shape: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(count)
    return [torch.randn(*shape, generator=generator).to(dtype) for _ in range(count)]


def signals(count: int) -> list[torch.Tensor]:
    return [torch.zeros(64 * count, dtype=torch.int32) for _ in range(count)]


def numbers(count: int) -> list[torch.Tensor]:
    return [torch.full((1,), float(i + 1)) for i in range(count)]
