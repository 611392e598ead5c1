"""The checker finds that CUB's temporary storage is reused without a barrier."""

from __future__ import annotations

import pytest
import torch

import tkjit
from tkjit import In, Out, Tensor
from tkjit.testing import KernelCheckError, check

pytestmark = pytest.mark.compiles
SOURCE = """
#include <cub/cub.cuh>
#include <tkjit/gl.h>
__global__ void sum_and_max(const __grid_constant__ Globals g) {
    using Reduce = cub::BlockReduce<float, 128>;
    __shared__ typename Reduce::TempStorage temp;
    const float x = g.x[threadIdx.x];
    const float sum = Reduce(temp).Sum(x);
    BARRIER
    const float most = Reduce(temp).Reduce(x, cub::Max());
    if (threadIdx.x == 0) g.y[0] = sum + most;
}
"""


def report(barrier: str, modes: list[str]) -> str:
    @tkjit.kernel(SOURCE.replace("BARRIER", barrier), entry="sum_and_max", grid=1, block=128)
    def sum_and_max(x: In[Tensor, "float32", 128], y: Out[Tensor, "float32", 1]) -> Tensor: ...

    try:
        check(sum_and_max, torch.randn(128), modes=modes)
    except KernelCheckError as error:
        return str(error)
    return ""


@pytest.mark.slow
def test_storage_that_is_reused_after_a_barrier_is_clean():
    assert report("__syncthreads();", ["race", "init"]) == ""


@pytest.mark.slow
def test_a_missing_barrier_between_two_uses_is_a_race():
    found = report("", ["race"])
    assert "race" in found and "inline.cu:8" in found
