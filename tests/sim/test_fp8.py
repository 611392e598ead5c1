"""8-bit floats agree with PyTorch's, and work in kernels on tensors of them.

test_fidelity.py compares every conversion with a search for the nearest value.
"""

import numpy as np
import pytest
import torch
from support.sampling import sample

import tkjit
from tkjit import In, Out, Tensor

pytestmark = pytest.mark.compiles
TYPES = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


def quantize(source: str, name: str, saturation: str) -> tkjit.Kernel:
    """Return a kernel that converts to bytes with ``__nv_cvt_float_to_fp8``."""
    text = """
    #include <cuda_fp8.h>
    #include <tkjit/gl.h>
    __global__ void quantize(const __grid_constant__ Globals g) {
        const int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < g.x.cols()) g.y[i] = __nv_cvt_float_to_fp8(float(g.x[i]), %s, __NV_%s);
    }
    """

    @tkjit.kernel(text % (saturation, name.upper()), entry="quantize", grid="cdiv(N, 256)", block=256)
    def kernel(x: In[Tensor, source, "N"], y: Out[Tensor, "uint8", "N"]) -> Tensor: ...

    return kernel


def inputs(source: str) -> torch.Tensor:
    """Return all 16-bit numbers, or random 32-bit ones."""
    if source != "float32":
        return torch.arange(-(2**15), 2**15, dtype=torch.int16).view(getattr(torch, source))
    generator = torch.Generator().manual_seed(1)
    bits = torch.randint(-(2**31), 2**31, (100_000,), generator=generator).int()
    return torch.cat([bits.view(torch.float32), torch.randn(100_000, generator=generator) * 100])


CONVERSIONS = [(name, source) for name in TYPES for source in ("float16", "bfloat16", "float32")]


@pytest.mark.parametrize(("name", "source"), sample(CONVERSIONS, "e4m3-float16", "e5m2-float32", name="-".join))
def test_conversions_agree_with_torch(name, source):
    x = inputs(source)
    saturated, unsaturated = (quantize(source, name, f"__NV_{mode}")(x) for mode in ("SATFINITE", "NOSAT"))
    largest = torch.finfo(TYPES[name]).max
    fits = x.abs() <= largest  # beyond that, torch's result differs between its versions
    wanted = x[fits].to(TYPES[name]).view(torch.uint8)
    assert torch.equal(saturated[fits], wanted) and torch.equal(unsaturated[fits], wanted)

    # Half of the last step above the largest number is a tie, which goes to the even code: down in e4m3, up in e5m2.
    is_over = x.abs() > 464 if name == "e4m3" else x.abs() >= 61440
    signs = x[is_over].signbit().to(torch.uint8) * 0x80
    largest_code, overflow_code = {"e4m3": (0x7E, 0x7F), "e5m2": (0x7B, 0x7C)}[name]
    assert is_over.any() and torch.equal(saturated[is_over], signs + largest_code)
    assert torch.equal(unsaturated[is_over], signs + overflow_code)
    assert x.isnan().any() and bool((saturated[x.isnan()] == 0x7F).all() and (unsaturated[x.isnan()] == 0x7F).all())


SCALE = """
#include <cuda_fp8.h>
#include <tkjit/gl.h>
__global__ void scale(const __grid_constant__ Globals g) {
    static_assert(sizeof(tkjit::gl<__nv_fp8_e4m3>::dtype) == 1);
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < g.x.cols()) g.y[i] = T(float(g.x[i]) * g.factor);
}
"""


@tkjit.kernel(SCALE, entry="scale", grid="cdiv(N, 256)", block=256, variants={"T": ("float8_e4m3fn", "float8_e5m2")})
def scale(x: In[Tensor, "T", "N"], factor: float, *, y: Out[Tensor, "T", "N"] = None) -> Tensor: ...


@pytest.mark.parametrize("name", TYPES)
def test_a_kernel_on_tensors_of_8_bit_floats_saturates(name):
    x = torch.arange(256, dtype=torch.uint8).view(TYPES[name])
    y = scale(x, 3.0)
    assert y.dtype == TYPES[name]
    largest = torch.finfo(TYPES[name]).max
    wanted = (x.float() * 3).clamp(-largest, largest).to(TYPES[name])  # torch's cast does not saturate
    np.testing.assert_array_equal(y.float().numpy(), wanted.float().numpy())


DEQUANTIZE = """
#include <cuda_fp4.h>
#include <tkjit/gl.h>
__global__ void dequantize(const __grid_constant__ Globals g) {
    const int pair = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (pair >= g.x.cols()) return;
    const float2 both = float2(g.x(row, pair));
    const float scale = float(g.scale[row]);
    g.y(row, 2 * pair) = both.x * scale;
    g.y(row, 2 * pair + 1) = both.y * scale;
}
"""


@tkjit.kernel(DEQUANTIZE, entry="dequantize", grid="cdiv(P, 32), M", block=32)
def dequantize(
    x: In[Tensor, "float4_e2m1fn_x2", "M", "P"],
    scale: In[Tensor, "float8_e8m0fnu", "M"],
    y: Out[Tensor, "float32", "M", "2 * P"],
) -> Tensor:
    """Multiply rows of 4-bit floats, two in a byte, by a power of two for each row."""


def test_a_kernel_on_tensors_of_4_bit_floats_and_their_scales():
    codes = torch.arange(256, dtype=torch.uint8).view(4, 64)
    scales = torch.tensor([0.5, 1.0, 2.0, 2.0**-20]).to(torch.float8_e8m0fnu)
    magnitudes = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    values = torch.cat([magnitudes, -magnitudes])
    pairs = torch.stack([values[(codes & 15).long()], values[(codes >> 4).long()]], -1).view(4, 128)
    y = dequantize(codes.view(torch.float4_e2m1fn_x2), scales)
    assert torch.equal(y, pairs * scales.float()[:, None])
    with pytest.raises(tkjit.ArgumentError, match=r"x is \(4, 64\) uint8 on cpu; expected .*float4_e2m1fn_x2"):
        dequantize(codes, scales)
