"""The checker on a kernel of a torch extension, whose host functions call torch."""

from __future__ import annotations

import pytest
import torch
from support.checked import F32, found

import tkjit
from tkjit import In, Out, Tensor
from tkjit.testing import check

pytestmark = pytest.mark.compiles

_EXTENSION = """
#include <torch/extension.h>

template <int threads>
__global__ void reverse_kernel(const float* x, float* y, int n) {
    __shared__ float tile[threads];
    const int i = blockIdx.x * threads + threadIdx.x;
    if (i < n) tile[threadIdx.x] = x[i BEYOND];
    BARRIER;
    const int last = min(threads, n - int(blockIdx.x) * threads) - 1;
    if (i < n) y[i] = tile[last - threadIdx.x];
}
torch::Tensor reverse(const torch::Tensor& x) {
    TORCH_CHECK(x.is_contiguous(), "x is not contiguous");
    auto y = torch::empty_like(x);
    reverse_kernel<64><<<(x.numel() + 63) / 64, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("reverse", &reverse); }
"""


def _kernel(beyond: str = "", barrier: str = "__syncthreads()") -> tkjit.Kernel:
    @tkjit.kernel(
        _EXTENSION.replace("BEYOND", beyond).replace("BARRIER", barrier),
        headers="torch",
        entry="reverse_kernel<64>",
        args=True,
        grid="cdiv(N, 64)",
        block=64,
        fields="x y N",
        computed={"N": "N"},
    )
    def reverse(x: In[Tensor, F32, "N"], y: Out[Tensor, F32, "N"]) -> Tensor:
        return torch.cat([part.flip(0) for part in x.split(64)])

    return reverse


@pytest.mark.slow  # compiles checkers
def test_a_kernel_of_an_extension_is_clean():
    assert check(_kernel()).findings == []


def test_a_missing_barrier_in_an_extension_is_found():
    race = next(one for one in found(_kernel(barrier="")) if "nothing orders two accesses to tile" in one.text)
    assert {race.here.line, race.there.line} == {8, 11}


@pytest.mark.slow  # compiles a checker
def test_an_index_out_of_bounds_in_an_extension_is_found():
    (memory,) = found(_kernel(beyond="+ 1"), modes=["memory"])
    assert "right after x" in memory.text
