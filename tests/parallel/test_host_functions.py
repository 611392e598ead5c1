"""Host functions over several devices: each launches for its own device."""

from __future__ import annotations

import pytest
import torch
from support.devices import parts

import tkjit
from tkjit import In, Out, ParallelTensor, Tensor

pytestmark = pytest.mark.compiles

OF_STRUCT = """
__global__ void add(const __grid_constant__ Globals g) {
    for (int i = threadIdx.x; i < g.y.cols(); i += blockDim.x) {
        float sum = g.dev_idx;
        for (int device = 0; device < g.num_devices; ++device) sum += g.x[device][i];
        g.y[i] = sum;
    }
}
void total(Globals g, cudaStream_t stream) { add<<<1, 32, 0, stream>>>(g); }
"""
OF_ARGUMENTS = """
__global__ void add(tkjit::pgl<float> x, float* y, int n, int dev_idx, int num_devices) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        y[i] = dev_idx;
        for (int device = 0; device < num_devices; ++device) y[i] += x[device][i];
    }
}
cudaError_t total(tkjit::pgl<float> x, float* y, int n, int dev_idx, int num_devices, cudaStream_t stream) {
    if (n > 1000) return cudaErrorInvalidValue;
    add<<<1, 32, 0, stream>>>(x, y, n, dev_idx, num_devices);
    return cudaGetLastError();
}
"""


@tkjit.kernel(OF_STRUCT, entry="total", host=True)
def of_struct(x: In[ParallelTensor, "float32", "N"], y: Out[Tensor, "float32", "N"]) -> Tensor: ...


@tkjit.kernel(
    OF_ARGUMENTS,
    entry="total",
    host=True,
    args=True,
    fields="x y n dev_idx num_devices",
    computed={"n": "N", "dev_idx": "dev_idx", "num_devices": "num_devices"},
)
def of_arguments(x: In[ParallelTensor, "float32", "N"], y: Out[Tensor, "float32", "N"]) -> Tensor: ...


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [of_struct, of_arguments], ids=["a struct", "arguments"])
def test_a_host_function_launches_for_its_device(kernel):
    x = parts(3, 40)
    for i, y in enumerate(kernel(x)):
        torch.testing.assert_close(y, sum(x) + i)


def test_an_error_in_a_host_function_names_its_device():
    with pytest.raises(tkjit.LaunchError, match="on device 0: the host function returned error 1"):
        of_arguments(parts(2, 2000))
