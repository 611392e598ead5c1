"""``TKJIT_SIM_NUMERICS=hardware``: the simulated tensor cores round as the published model of the hardware does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.sampling import sample

import tkjit
from tkjit.config import Settings

pytestmark = pytest.mark.compiles
TESTS = Path(__file__).parents[1]
# for a separate process, because a launcher reads the variable only once
WGMMA = """
import torch
from support.fused_sums import fused_sum
from support.hopper.kernels import TYPES, Product

for element in ("bf16", "f16", "tf32", "e4m3", "e5m2"):
    product, dtype = Product(element), TYPES[element][2]
    deep, narrow = 32 // dtype.itemsize, dtype.itemsize == 1
    a = torch.randn(64, 4 * deep).exp().mul(torch.randn(64, 4 * deep)).to(dtype)
    b = torch.randn(64, 4 * deep).to(dtype)
    a[3, 1] = float("nan") if element == "bf16" else 0
    got = product.kernel(a, b)
    if element == "tf32":
        a, b = ((x.view(torch.int32) >> 13 << 13).view(torch.float32) for x in (a, b))
    for row, column in ((0, 0), (17, 5), (63, 63), (40, 31)):
        total = 0.0
        for k in range(0, 4 * deep, deep):
            terms = [x[i, k : k + deep].float().tolist() for x, i in ((a, row), (b, column))]
            name = element if element == "tf32" else str(dtype).removeprefix("torch.")
            total = fused_sum(*terms, total, name, 13 if narrow else 25, 13 if narrow else 23)
        assert float(got[row, column]) == total, (element, row, column, float(got[row, column]), total)
    if element == "bf16":
        assert got[3].view(torch.int32).eq(0x7FFFFFFF).all()
print("right")
"""
MMA = """
import sys

import torch
from support.fused_sums import fused_sum

import tkjit
from tkjit import In, Out, Tensor

SOURCE = '''
#include <tkjit/mma.cuh>
__global__ void multiply(Globals g) {
    const int group = threadIdx.x / 4, thread = threadIdx.x % 4;
    uint32_t a[4], b[2];
    float d[4] = {};
    for (int i = 0; i < 4; i++)
        a[i] = *(const uint32_t*)(g.a.raw_ptr + (group + i % 2 * 8) * 16 + thread * 2 + i / 2 * 8);
    for (int i = 0; i < 2; i++) b[i] = *(const uint32_t*)(g.b.raw_ptr + group * 16 + thread * 2 + i * 8);
    tkjit::mma_m16n8k16<__nv_bfloat16>(d, a, b, d);
    for (int i = 0; i < 4; i++) g.d(group + i / 2 * 8, thread * 2 + i % 2) = d[i];
}
'''


@tkjit.kernel(SOURCE, entry="multiply", grid=1, block=32)
def multiply(
    a: In[Tensor, "bfloat16", 16, 16], b: In[Tensor, "bfloat16", 8, 16], d: Out[Tensor, "float32", 16, 8]
) -> Tensor: ...


a, b = torch.randn(16, 16).exp().mul(torch.randn(16, 16)).bfloat16(), torch.randn(8, 16).bfloat16()
d = multiply(a, b)
part, kept = (16, 25) if sys.argv[1] == "90a" else (8, 24)
for row in range(16):
    for column in range(8):
        total = 0.0
        for k in range(0, 16, part):
            terms = [x[k : k + part].float().tolist() for x in (a[row], b[column])]
            total = fused_sum(*terms, total, "bfloat16", kept)
        assert float(d[row, column]) == total
print("right")
"""


def run(program: str, *words: str, **environ: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        env={**os.environ, "PYTHONPATH": str(TESTS), **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or done.stderr[-800:]


@pytest.mark.slow  # computes large products
def test_wgmma_follows_the_model(session_cache):
    assert run(WGMMA, TKJIT_SIM_NUMERICS="hardware") == "right"
    assert "AssertionError" in run(WGMMA), "without the setting, the sums should differ"


@pytest.mark.parametrize("arch", sample(["80", "90a"], "90a"))
def test_mma_follows_the_model(session_cache, arch):
    assert run(MMA, arch, TKJIT_SIM_NUMERICS="hardware", TKJIT_MODEL_ARCH=arch) == "right"


def test_an_unknown_value_is_an_error():
    with pytest.raises(tkjit.CacheError, match="TKJIT_SIM_NUMERICS is 'exact'; expected hardware"):
        Settings.from_environment({"TKJIT_SIM_NUMERICS": "exact"})
