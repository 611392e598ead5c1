"""The simulator's conversions agree with the host implementations in CUDA's headers."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import torch

import tkjit
from tkjit import In, Out, Tensor
from tkjit.compile.flags import SIMULATOR

pytestmark = pytest.mark.nvcc
SCALES = [f"__nv_cvt_float_to_e8m0(x, {saturation}, {rounding})"
          for saturation in ("__NV_SATFINITE", "__NV_NOSAT")
          for rounding in ("cudaRoundZero", "cudaRoundPosInf")]  # fmt: skip
CONVERSIONS = [
    *SCALES,
    "__nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest)",
    "__nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundZero)",
    "__nv_cvt_double_to_fp4(x / 3.0, __NV_E2M1, cudaRoundNearest)",
    "__nv_cvt_double_to_e8m0(x / 3.0, __NV_SATFINITE, cudaRoundPosInf)",
    "__nv_cvt_float2_to_fp4x2(float2{x, -x * 2}, __NV_E2M1, cudaRoundNearest)",
    "__nv_fp8_e8m0(x).__x",
    "__nv_fp8x2_e8m0(float2{x, 3 * x}).__x >> 8",
    "__nv_fp8x2_e8m0(__float22bfloat162_rn(float2{x, 3 * x})).__x >> 8",
    "__nv_fp8x4_e8m0(float4{x, x, x, 3 * x}).__x >> 24",
    "__nv_cvt_e8m0x2_to_bf162raw(__nv_fp8x2_storage_t(i * 257)).y >> 8",
    "__nv_fp4_e2m1(x).__x",
    "__nv_cvt_e8m0_to_bf16raw(__nv_fp8_storage_t(i)).x >> 8",
    "__nv_cvt_e8m0_to_bf16raw(__nv_fp8_storage_t(i)).x & 0xff",
    "__nv_cvt_fp4_to_halfraw(i & 0xf, __NV_E2M1).x >> 8",
    "__nv_cvt_fp4x2_to_halfraw2(__nv_fp4x2_storage_t(i), __NV_E2M1).y >> 8",
]
PROGRAM = """
#include <cuda_fp4.h>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int, char** names) {
    std::vector<float> inputs(std::atoi(names[2]));
    std::FILE* const file = std::fopen(names[1], "rb");
    if (std::fread(inputs.data(), 4, inputs.size(), file) != inputs.size()) return 1;
    for (size_t i = 0; i < inputs.size(); ++i) {
        const float x = inputs[i];
        for (const int code : {%s}) std::putchar(code & 0xff);
    }
}
"""
KERNEL = """
#include <cuda_fp4.h>
#include <tkjit/gl.h>
__global__ void convert(const __grid_constant__ Globals g) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= g.x.cols()) return;
    const float x = g.x[i];
    int place = i * g.y.cols();
    for (const int code : {%s}) g.y[place++] = code & 0xff;
}
"""


@pytest.fixture(scope="module")
def inputs() -> torch.Tensor:
    """Every bfloat16, random floats, and the neighbours of ties and powers of two."""
    every = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(torch.bfloat16).float()
    bits = torch.randint(-(2**31), 2**31, (20_000,), generator=torch.Generator().manual_seed(1)).int()
    small = torch.arange(-64, 65) / 16
    near = torch.cat([small, torch.exp2(torch.arange(-140.0, 128))])
    around = [near, torch.nextafter(near, torch.tensor(torch.inf)), torch.nextafter(near, torch.tensor(-torch.inf))]
    return torch.cat([every, bits.view(torch.float32), *around]).contiguous()


@pytest.mark.slow
def test_conversions_agree_with_cudas_headers(loader, inputs, tmp_path):
    listed = ", ".join(f"int({conversion})" for conversion in CONVERSIONS)

    @tkjit.kernel(KERNEL % listed, entry="convert", grid="cdiv(N, 256)", block=256)
    def convert(x: In[Tensor, "float32", "N"], y: Out[Tensor, "uint8", "N", len(CONVERSIONS)]) -> Tensor: ...

    program, data = tmp_path / "program", tmp_path / "inputs"
    program.with_suffix(".cpp").write_text(PROGRAM % listed)
    data.write_bytes(inputs.numpy().tobytes())
    include = Path(loader.toolchain.cuda_root) / "include"
    subprocess.run(
        ["g++", "-O1", "-std=c++17", "-w", f"-isystem{include}", program.with_suffix(".cpp"), "-o", program], check=True
    )
    printed = subprocess.run([program, data, str(len(inputs))], check=True, capture_output=True).stdout
    wanted = torch.frombuffer(bytearray(printed), dtype=torch.uint8).view(len(inputs), -1)
    got = convert(inputs)
    for i, conversion in enumerate(CONVERSIONS):
        wrong = (got[:, i] != wanted[:, i]).nonzero().flatten().tolist()
        first = [(float(inputs[k]), int(got[k, i]), int(wanted[k, i])) for k in wrong[:5]]
        assert not wrong, f"{conversion}: {len(wrong)} of {len(inputs)}: {first}"


def test_attributes_of_a_device_have_cudas_numbers(loader):
    text = (SIMULATOR / "detail/host_api.h").read_text()
    numbers = re.findall(r"    X\((\w+), (\d+), ", text)
    assert len(numbers) > 40
    checks = "".join(f"static_assert(int(cudaDevAttr{name}) == {number});\n" for name, number in numbers)
    include = Path(loader.toolchain.cuda_root) / "include"
    command = ["g++", "-std=c++17", "-fsyntax-only", f"-isystem{include}", "-x", "c++", "-"]
    subprocess.run(command, input=f"#include <cuda_runtime_api.h>\n{checks}", text=True, check=True)
