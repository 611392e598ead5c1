"""Until a thread has waited for a wgmma, it may not use the registers of the sums, nor write those of A.

Source: PTX ISA, "wgmma.mma_async", "wgmma.wait_group".
"""

from __future__ import annotations

from functools import partial

import pytest
from support.define import define

from tkjit import CExpr
from tkjit.testing import KernelCheckError, check

pytestmark = pytest.mark.compiles
SHARED = CExpr("sizeof(Shared)")
slow = partial(pytest.param, marks=pytest.mark.slow)

TILES = """
#include <tkjit/bulk_copy.cuh>
#include <tkjit/tensor_map.cuh>
#include <tkjit/wgmma.cuh>
using bf16 = __nv_bfloat16;
using Tile = tkjit::tiled<bf16, 64, 64>;

struct Shared {
    alignas(1024) char a[Tile::tile_bytes];
    alignas(1024) char b[Tile::tile_bytes];
};

__device__ void put(char* tile, const bf16* x) {
    for (int i = threadIdx.x; i < 64 * 64; i += 128)
        *reinterpret_cast<bf16*>(tile + tkjit::place_in_tile<Tile>(i / 64, i % 64)) = x[i];
}
"""
# two accumulators in two groups
HEADER = f"""{TILES}
struct Sums {{
    float first[32];
    float second[32];
}};

__global__ void __launch_bounds__(128) product(Globals g) {{
    TKJIT_DYNAMIC_SHARED(Shared, shared);
    put(shared->a, g.a.raw_ptr);
    put(shared->b, g.b.raw_ptr);
    tkjit::fence_async_proxy();
    __syncthreads();
    Sums sums = {{}};
    float total = 0;
    uint32_t registers[4] = {{}};
    const auto a = tkjit::wgmma_rows(shared->a), b = tkjit::wgmma_columns(shared->b, sizeof shared->b);
    tkjit::wgmma_fence(sums.first);
    for (int k = 0; k < 4; ++k) tkjit::wgmma<64, bf16, true>(sums.first, a.advanced(k), b.advanced(k));
    tkjit::wgmma_commit();
    AFTER_THE_FIRST
    for (int k = 0; k < 4; ++k) tkjit::wgmma<64, bf16, true>(sums.second, a.advanced(k), b.advanced(k));
    tkjit::wgmma<64, bf16, true>(sums.second, registers, b.advanced(0));
    tkjit::wgmma_commit();
    AFTER_THE_SECOND
    tkjit::wgmma_wait<1>(sums.first);
    AFTER_WAITING_FOR_THE_FIRST
    tkjit::wgmma_wait<0>(sums.second);
    registers[0] = 1;
    for (int i = 0; i < 32; ++i) total += sums.second[i] + registers[0];
    if (total == -1) __trap();
    for (int i = 0; i < 32; ++i) g.c(tkjit::wgmma_row(i), tkjit::wgmma_col(i)) = sums.first[i];
}}
"""
# the statements of a library such as CUTLASS, with references to the elements of a fragment
STATEMENTS = f"""{TILES}
__device__ void keep(float& sum) {{ asm volatile("" : "+f"(sum)::"memory"); }}

__device__ void multiply(uint64_t a, uint64_t b, float& d0, float& d1, float& d2, float& d3, int adds) {{
    asm volatile("{{ .reg .pred p; setp.ne.b32 p, %6, 0;"
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{%0, %1, %2, %3}}, %4, %5, p, 1, 1, 0, 0; }}"
                 : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3) : "l"(a), "l"(b), "r"(adds));
}}

__device__ void multiply(const uint32_t (&a)[4], uint64_t b, float& d0, float& d1, float& d2, float& d3, int adds) {{
    asm volatile("{{ .reg .pred p; setp.ne.b32 p, %9, 0;"
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16"
                 " {{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, %8, p, 1, 1, 0; }}"
                 : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3] + 0), "l"(b), "r"(adds));
}}

__global__ void __launch_bounds__(128) product(Globals g) {{
    TKJIT_DYNAMIC_SHARED(Shared, shared);
    put(shared->a, g.a.raw_ptr);
    put(shared->b, g.b.raw_ptr);
    tkjit::fence_async_proxy();
    __syncthreads();
    float sum[4] = {{}};
    uint32_t registers[4] = {{}};
    int adds = 0;
    const auto a = tkjit::wgmma_rows(shared->a), b = tkjit::wgmma_rows(shared->b);
    for (float& one : sum) keep(one);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int k = 0; k < 4; ++k) {{
        multiply(a.advanced(k), b.advanced(k), sum[0], sum[1], sum[2], sum[3], adds);
        adds = 1;  // read by the statement itself
    }}
    multiply(registers, b.advanced(0), sum[0], sum[1], sum[2], sum[3], adds);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    for (float& one : sum) keep(one);
    registers[3] = adds;  // not an operand itself
    BEFORE_THE_WAIT
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(0) : "memory");
    registers[1] = adds;
    if (registers[0] == 7) __trap();
    for (int i = 0; i < 4; ++i) g.c(tkjit::wgmma_row(i), tkjit::wgmma_col(i)) = sum[i];
}}
"""
MATRICES = '(a: In[Tensor, "bfloat16", 64, 64], b: In[Tensor, "bfloat16", 64, 64], c: Out[Tensor, "float32", 64, 64])'


def findings(source: str, place: str = "", line: str = "") -> list[str]:
    if place:
        assert place in source
        source = source.replace(place, line)
    for other in ("AFTER_THE_FIRST", "AFTER_THE_SECOND", "AFTER_WAITING_FOR_THE_FIRST", "BEFORE_THE_WAIT"):
        source = source.replace(f"    {other}\n", "\n")
    kernel = define(source, MATRICES, entry="product", grid=1, block=128, shared_memory=SHARED)
    try:
        check(kernel, modes=["race"])
    except KernelCheckError as error:
        lines = source.splitlines()
        for finding in error.report.findings:
            assert finding.kind == "wgmma"
            assert line.strip() in lines[finding.here.line - 1]
            assert "wgmma" in lines[finding.there.line - 1] or "asm" in lines[finding.there.line - 1]
        return [finding.text.split(" wgmma")[0] for finding in error.report.findings]
    return []


SUMS, A = "a thread uses the sums of a", "a thread writes registers of A that a"


@pytest.mark.parametrize(
    ("place", "line", "texts"),
    [
        ("AFTER_WAITING_FOR_THE_FIRST", "total += sums.first[3];", []),
        ("AFTER_THE_SECOND", "total += registers[1];", []),
        ("AFTER_THE_SECOND", "total += sums.first[3];", [SUMS]),
        slow("AFTER_THE_FIRST", "sums.first[31] *= 2;", [SUMS]),
        slow("AFTER_WAITING_FOR_THE_FIRST", "total += sums.second[3];", [SUMS]),
        slow("AFTER_WAITING_FOR_THE_FIRST", "for (float& one : sums.second) one = 0;", [SUMS]),
        ("AFTER_WAITING_FOR_THE_FIRST", "const Sums copy = sums; total += copy.first[1];", [SUMS]),
        ("AFTER_THE_SECOND", "registers[2] = threadIdx.x;", [A]),
        slow("AFTER_WAITING_FOR_THE_FIRST", "registers[0]++;", [A]),
    ],
)
def test_registers_of_the_header(place, line, texts):
    assert findings(HEADER, place, line) == texts


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("adds = registers[0];", []),
        ("if (sum[2] == 7) __trap();", [SUMS]),
        slow("sum[3] = 7;", [SUMS]),
        ("registers[2] = 7;", [A]),
    ],
)
def test_registers_of_statements(line, texts):
    assert findings(STATEMENTS, "BEFORE_THE_WAIT", line) == texts


# the fragment of A is a variable of a function, whose memory another function's variables get
SHORT_LIVED = f"""{TILES}
__device__ __noinline__ void multiply(float (&sum)[32], const bf16* x, uint64_t b) {{
    uint32_t a[4];
    for (int i = 0; i < 4; ++i) a[i] = reinterpret_cast<const uint32_t*>(x)[threadIdx.x + 128 * i];
    FENCE
    tkjit::wgmma<64, bf16, true>(sum, a, b);
    tkjit::wgmma_commit();
}}
__device__ __noinline__ float product_of(const bf16* x) {{
    float parts[8];
    for (int i = 0; i < 8; ++i) parts[i] = float(x[threadIdx.x + i]) * 2;
    return parts[0] * parts[1] * parts[2] * parts[3] * parts[4] * parts[5] * parts[6] * parts[7];
}}

__global__ void __launch_bounds__(128) product(Globals g) {{
    TKJIT_DYNAMIC_SHARED(Shared, shared);
    put(shared->b, g.b.raw_ptr);
    tkjit::fence_async_proxy();
    __syncthreads();
    float sum[32] = {{}}, total = 0;
    const auto b = tkjit::wgmma_columns(shared->b, sizeof shared->b);
    tkjit::wgmma_fence(sum);
    for (int k = 0; k < 4; ++k) {{
        multiply(sum, g.a.raw_ptr, b.advanced(k));
        total += product_of(g.a.raw_ptr);
    }}
    tkjit::wgmma_wait<0>(sum);
    for (int i = 0; i < 32; ++i) g.c(tkjit::wgmma_row(i), tkjit::wgmma_col(i)) = sum[i] + total;
}}
"""


def test_memory_of_a_functions_variables_can_be_used_again():
    assert findings(SHORT_LIVED, "FENCE", "tkjit::wgmma_fence(sum);") == []


def test_registers_that_are_written_after_the_fence():
    kernel = define(
        SHORT_LIVED.replace("FENCE", ""), MATRICES, entry="product", grid=1, block=128, shared_memory=SHARED
    )
    with pytest.raises(KernelCheckError, match=r"written after the last wgmma\.fence"):
        check(kernel, modes=["race"])
