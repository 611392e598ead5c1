"""Extensions on a GPU: functions and operators, in the current stream, and with tensors on the CPU or the GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tkjit import cpp_extension

pytestmark = pytest.mark.gpu
SOURCE = """
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/extension.h>
#include <torch/library.h>

__global__ void scale_kernel(const float* x, float* y, float by, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * by;
}
torch::Tensor scale(torch::Tensor x, double by) {
    TORCH_CHECK(x.is_cuda(), "x must be a CUDA tensor");
    const at::cuda::OptionalCUDAGuard guard(device_of(x));
    auto y = torch::empty_like(x);
    const int n = x.numel();
    scale_kernel<<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), by, n);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
"""
OPERATOR = """
TORCH_LIBRARY(tkjit_test_gpu, m) { m.def("scale(Tensor x, float by) -> Tensor"); }
TORCH_LIBRARY_IMPL(tkjit_test_gpu, CUDA, m) { m.impl("scale", &scale); }
"""


def test_function_runs_on_the_device_of_its_tensors(tmp_path):
    path = tmp_path / "scale.cu"
    path.write_text(SOURCE)
    module = cpp_extension.load("gpu_scale", path)
    x = torch.randn(1000)
    assert torch.equal(module.scale(x.cuda(), 3.0).cpu(), 3 * x)
    assert torch.equal(module.scale(x, 3.0), 3 * x)  # tensors on the CPU run in the simulator
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        y = module.scale(x.cuda(), 2.0)
    stream.synchronize()
    assert torch.equal(y.cpu(), 2 * x)


def test_registered_operator_runs_only_on_the_gpu(tmp_path):
    path = tmp_path / "operator.cu"
    path.write_text(SOURCE + OPERATOR)
    cpp_extension.load("gpu_operator", path, is_python_module=False)
    x = torch.randn(1000)
    assert torch.equal(torch.ops.tkjit_test_gpu.scale(x.cuda(), 3.0).cpu(), 3 * x)
    with pytest.raises(NotImplementedError, match="CPU"):
        torch.ops.tkjit_test_gpu.scale(x, 3.0)


def test_tensor_api_on_a_gpu():
    module = cpp_extension.load("tensor_api_on_a_gpu", Path(__file__).parents[1] / "support/extensions/tensor_api.cpp")
    x = torch.randn(4, 3, dtype=torch.double, device="cuda", requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: module.arithmetic(x, 1.5), (x,))
    expected = [x[None, ..., 0], x[::2], x[x.sum(1) > 0], x[torch.tensor([1, 0]), 1:], x[..., -1]]
    for got, value in zip(module.indexed(x.detach()), expected, strict=False):
        assert got.device == x.device and torch.equal(got, value)
    assert module.made(x)[0].device == x.device
