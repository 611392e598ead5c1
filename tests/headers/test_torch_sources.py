"""Kernels in sources that include torch's headers: a launcher compiles all of the source and launches the kernel."""

from __future__ import annotations

import ctypes

import pytest
import torch
from support import stable_source

import tkjit
from tkjit import In, Out, Tensor, ToolchainError
from tkjit.cache.entry import read_dependencies
from tkjit.compile.targets import cpu_target, gpu_target
from tkjit.spec import Variant

pytestmark = pytest.mark.compiles
SOURCE = """
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>

template <typename scalar_t>
__global__ void scale(const scalar_t* x, scalar_t* y, float factor, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = static_cast<scalar_t>(static_cast<float>(x[i]) * factor);
}

torch::Tensor run_scale(torch::Tensor x, double factor) {
    TORCH_CHECK(x.is_cuda(), "x has to be on a GPU");
    const at::cuda::OptionalCUDAGuard guard(x.device());
    auto y = torch::empty_like(x);
    const int n = x.numel();
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "scale", [&] {
        scale<scalar_t><<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
            x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), factor, n);
    });
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("scale", &run_scale, "x * factor", py::arg("x"), py::arg("factor") = 2.0);
}
TORCH_LIBRARY(tkjit_test_of_headers, m) { m.def("scale(Tensor x, float factor) -> Tensor"); }
"""


STABLE = f"""
#include <torch/csrc/stable/library.h>
{stable_source.SOURCE}
STABLE_TORCH_LIBRARY(tkjit_test_of_stable_headers, m) {{ m.def("add(Tensor a) -> Tensor"); }}
"""


def scale_with(**options) -> tkjit.Kernel:
    options = {
        "entry": "scale<T>",
        "grid": "cdiv(n, 256)",
        "block": 256,
        "variants": {"T": ("float32", "float64")},
    } | options

    @tkjit.kernel(SOURCE, args=True, fields="x y factor n", computed={"n": "n"}, **options)
    def scale(x: In[Tensor, "T", "n"], y: Out[Tensor, "T", "n"], factor: float) -> Tensor: ...

    return scale


@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.float64, marks=pytest.mark.slow)])
def test_a_kernel_of_a_torch_extension_runs(dtype):
    x = torch.randn(1000).to(dtype)
    assert torch.equal(tkjit.load(scale_with(headers="torch"))(x, factor=0.5), x * 0.5)


@tkjit.kernel(
    STABLE, headers="torch", args=True, fields="sums a b n", computed={"n": "n"},
    entry="add_kernel<T>", grid="cdiv(n, 64)", block=64, variants={"T": ("float32",)},
)  # fmt: skip
def add(sums: Out[Tensor, "T", "n"], a: In[Tensor, "T", "n"], b: In[Tensor, "T", "n"]) -> Tensor: ...


def test_a_kernel_of_a_source_for_the_stable_api_runs():
    a, b = torch.randn(100), torch.randn(100)
    assert torch.equal(tkjit.load(add)(a=a, b=b), a + b)
    assert not hasattr(torch.ops.tkjit_test_of_stable_headers, "add")


def test_operators_of_the_source_are_not_registered():
    tkjit.load(scale_with(headers="torch"))(torch.randn(8), factor=1.0)
    assert not hasattr(torch.ops.tkjit_test_of_headers, "scale")


def test_a_launcher_depends_on_torchs_build_but_not_on_its_headers(loader):
    (spec,) = scale_with(headers="torch").specs
    launcher = loader.launcher(spec, Variant((("T", "float32"),)), cpu_target())
    names = read_dependencies(launcher.directory, launcher.manifest)["files"]
    assert [name for name in sorted(names) if name.startswith("<torch>/")] == [
        "<torch>/lib/libc10.so",
        "<torch>/version.py",
    ]


def test_the_error_without_headers_names_the_option():
    with pytest.raises(ToolchainError, match='its source includes torch\'s headers; add headers="torch"'):
        tkjit.load(scale_with())(torch.randn(8), factor=1.0)


@pytest.mark.slow  # nvcc reads torch's headers
@pytest.mark.nvcc
@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(scale_with(headers="torch"), id="at::Tensor", marks=pytest.mark.slow),
        pytest.param(add, id="torch::stable::Tensor"),
    ],
)
def test_a_torch_source_compiles_for_a_gpu_and_loads_without_one(loader, kernel):
    (spec,) = kernel.specs
    launcher = loader.launcher(spec, Variant((("T", "float32"),)), gpu_target("90a"))
    ctypes.CDLL(str(launcher.shared_object), mode=ctypes.RTLD_LOCAL | 2)  # RTLD_NOW: every symbol is found
