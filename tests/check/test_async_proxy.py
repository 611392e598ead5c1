"""Asynchronous operations (TMA, bulk copies, wgmma) read what threads wrote only after a proxy fence.

Source: PTX ISA, "Memory Consistency Model: Proxies", and "Async proxy".
"""

import warnings
from functools import partial

import pytest
from support.define import define

from tkjit import CExpr
from tkjit.testing import KernelCheckError, KernelCheckWarning, check

pytestmark = pytest.mark.compiles
FENCE = "tkjit::fence_async_proxy();"
slow = partial(pytest.param, marks=pytest.mark.slow)

STORE = """
#include <tkjit/bulk_copy.cuh>

struct Shared {
    alignas(128) float tile[64];
};

__global__ void store(Globals g) {
    TKJIT_DYNAMIC_SHARED(Shared, shared);
    BEFORE_THE_WRITE
    shared->tile[threadIdx.x] = 2 * g.x[threadIdx.x];
    AFTER_THE_WRITE
    __syncthreads();
    if (threadIdx.x == 0) {
        AFTER_THE_BARRIER
        tkjit::bulk_store_to_global(&g.y[0], shared->tile, sizeof shared->tile);
        tkjit::bulk_store_commit();
        tkjit::bulk_store_wait<0>();
    }
}
"""
PRODUCT = """
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

__global__ void __launch_bounds__(128) product(Globals g) {
    TKJIT_DYNAMIC_SHARED(Shared, shared);
    put(shared->a, g.a.raw_ptr);
    put(shared->b, g.b.raw_ptr);
    AFTER_THE_WRITE
    __syncthreads();
    float sum[32] = {};
    const auto a = tkjit::wgmma_rows(shared->a), b = tkjit::wgmma_columns(shared->b, sizeof shared->b);
    tkjit::wgmma_fence(sum);
    for (int k = 0; k < 4; ++k) tkjit::wgmma<64, bf16, true>(sum, a.advanced(k), b.advanced(k));
    tkjit::wgmma_commit();
    tkjit::wgmma_wait<0>(sum);
    for (int i = 0; i < 32; ++i) g.c(tkjit::wgmma_row(i), tkjit::wgmma_col(i)) = sum[i];
}
"""
RELAY = """
#include <tkjit/bulk_copy.cuh>

struct Shared {
    alignas(128) float tile[64];
    uint64_t loaded;
};

__global__ void relay(Globals g) {  // what a copy wrote needs no fence
    TKJIT_DYNAMIC_SHARED(Shared, shared);
    if (threadIdx.x == 0) {
        tkjit::mbarrier_init(&shared->loaded, 1);
        tkjit::fence_mbarrier_init();
        tkjit::mbarrier_arrive_expect_bytes(&shared->loaded, sizeof shared->tile);
        tkjit::bulk_copy_to_shared(shared->tile, &g.x[0], sizeof shared->tile, &shared->loaded);
        tkjit::mbarrier_wait(&shared->loaded, 0);
        tkjit::bulk_store_to_global(&g.y[0], shared->tile, sizeof shared->tile);
        tkjit::bulk_store_commit();
        tkjit::bulk_store_wait<0>();
    }
}
"""
LOAD = """
#include <tkjit/bulk_copy.cuh>

struct Shared {
    alignas(128) float tile[64];
    uint64_t loaded;
};

__global__ void load(Globals g) {  // a thread writes global memory, and a copy reads it
    TKJIT_DYNAMIC_SHARED(Shared, shared);
    g.y[threadIdx.x] = 2 * g.x[threadIdx.x];
    AFTER_THE_WRITE
    if (threadIdx.x == 0) {
        tkjit::mbarrier_init(&shared->loaded, 1);
        tkjit::fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        tkjit::mbarrier_arrive_expect_bytes(&shared->loaded, sizeof shared->tile);
        tkjit::bulk_copy_to_shared(shared->tile, &g.y[0], sizeof shared->tile, &shared->loaded);
    }
    tkjit::mbarrier_wait(&shared->loaded, 0);
    if (shared->tile[threadIdx.x] != 2 * g.x[threadIdx.x]) __trap();
}
"""
VECTORS = '(x: In[Tensor, "float32", 64, Align(16)], y: Out[Tensor, "float32", 64]) -> Tensor'
MATRICES = '(a: In[Tensor, "bfloat16", 64, 64], b: In[Tensor, "bfloat16", 64, 64], c: Out[Tensor, "float32", 64, 64])'


def findings(source: str, signature: str = VECTORS, block: int = 64, **places: str) -> list[str]:
    for place in ("BEFORE_THE_WRITE", "AFTER_THE_WRITE", "AFTER_THE_BARRIER"):
        source = source.replace(place, places.get(place, ""))
    entry = source.partition("__global__ void ")[2].replace("__launch_bounds__(128) ", "").partition("(")[0]
    kernel = define(source, signature, entry=entry, grid=1, block=block, shared_memory=CExpr("sizeof(Shared)"))
    try:
        check(kernel, modes=["race"])
    except KernelCheckError as error:
        return [finding.kind for finding in error.report.findings]
    return []


@pytest.mark.parametrize(
    ("places", "kinds"),
    [
        ({"AFTER_THE_WRITE": FENCE}, []),
        slow({"AFTER_THE_WRITE": 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");'}, []),
        slow({"AFTER_THE_WRITE": 'asm volatile("fence.proxy.async;" ::: "memory");'}, []),
        ({}, ["proxy"]),
        slow({"BEFORE_THE_WRITE": FENCE}, ["proxy"]),
        ({"AFTER_THE_WRITE": f"if (threadIdx.x == 63) {FENCE}"}, ["proxy"]),  # it does not know the others' writes
        slow({"AFTER_THE_WRITE": f"for (int i = 64; i < g.x.numel(); ++i) {FENCE}"}, ["proxy"]),
        ({"AFTER_THE_WRITE": 'asm volatile("fence.proxy.async.global;" ::: "memory");'}, ["proxy"]),
        slow({"AFTER_THE_WRITE": "__threadfence();"}, ["proxy"]),
    ],
)
def test_a_bulk_store_of_what_threads_wrote(places, kinds):
    assert findings(STORE, **places) == kinds


def test_a_fence_of_the_thread_that_stores_is_a_warning():
    """The fence is on the path from the writes to the copy, but on the wrong side of the barrier for the other threads.

    As in https://github.com/pytorch/ao/pull/4278.
    """
    with pytest.warns(KernelCheckWarning, match="and only another thread's fence follows the write; let each thread"):
        assert findings(STORE, AFTER_THE_BARRIER=FENCE) == []


@pytest.mark.parametrize("kept", [slow(""), "        tkjit::bulk_store_commit();\n"])
def test_a_store_that_is_not_waited_for_is_a_warning(kept):
    ending = "        tkjit::bulk_store_commit();\n        tkjit::bulk_store_wait<0>();\n"
    assert STORE.count(ending) == 1
    source = STORE.replace(ending, kept).replace("AFTER_THE_WRITE", FENCE)
    source = source.replace("BEFORE_THE_WRITE", "").replace("AFTER_THE_BARRIER", "")
    kernel = define(source, VECTORS, entry="store", grid=1, block=64, shared_memory=CExpr("sizeof(Shared)"))
    with pytest.warns(KernelCheckWarning, match="a thread ends without waiting for its bulk store"):
        report = check(kernel, modes=["init"])
    (warning,) = report.warnings
    assert report.findings == [] and "bulk_store_to_global" in source.splitlines()[warning.here.line - 1]


@pytest.mark.parametrize(("fence", "kinds"), [(FENCE, set()), ("", {"proxy"})])
def test_operands_of_wgmma_that_threads_wrote(fence, kinds):
    assert set(findings(PRODUCT, MATRICES, 128, AFTER_THE_WRITE=fence)) == kinds


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("    tkjit::wgmma_fence(sum);\n", "nothing orders the registers of the sums before this wgmma"),
        ("    tkjit::wgmma_commit();\n", "this wgmma is never committed"),
        ("    tkjit::wgmma_wait<0>(sum);\n", "no thread waits for this wgmma"),
    ],
)
def test_a_product_needs_a_fence_a_commit_and_a_wait(line, text):
    assert PRODUCT.count(line) == 1
    source = PRODUCT.replace("AFTER_THE_WRITE", FENCE).replace(line, "")
    kernel = define(source, MATRICES, entry="product", grid=1, block=128, shared_memory=CExpr("sizeof(Shared)"))
    with pytest.raises(KernelCheckError) as caught:
        check(kernel, modes=["race"])
    finding, *others = sorted(caught.value.report.findings, key=lambda finding: "uses the sums" in finding.text)
    assert finding.kind == "wgmma" and text in finding.text
    assert all("uses the sums of a wgmma that it has not waited for" in other.text for other in others)
    assert "tkjit::wgmma<64, bf16, true>" in source.splitlines()[finding.here.line - 1]


@pytest.mark.parametrize(
    ("line", "instruction"),
    [
        ("tkjit::wgmma_fence(sum);", "fence"),
        slow("tkjit::wgmma_commit();", "commit_group"),
        ("tkjit::wgmma_wait<0>(sum);", "wait_group"),
    ],
)
@pytest.mark.parametrize("before", [True, slow(False)])
def test_all_lanes_execute_the_steps_of_a_product(line, instruction, before):
    """The line of the partial step is reported once, and no step of a later product."""
    assert PRODUCT.count(line) == 1
    partial_step = f"if (threadIdx.x % 32 == 5) {line}  // partial"
    steps = f"{partial_step}\n    {line}\n" if before else f"{line}\n    {partial_step}\n"
    again = "    tkjit::wgmma_fence(sum);\n    tkjit::wgmma<64, bf16, true>(sum, a.advanced(0), b.advanced(0));\n"
    again += "    tkjit::wgmma_commit();\n    tkjit::wgmma_wait<0>(sum);\n"
    wait = "    tkjit::wgmma_wait<0>(sum);\n"
    source = PRODUCT.replace("AFTER_THE_WRITE", FENCE).replace(wait, wait + again, 1).replace(line, steps, 1)
    kernel = define(source, MATRICES, entry="product", grid=1, block=128, shared_memory=CExpr("sizeof(Shared)"))
    with pytest.raises(KernelCheckError, match=f"only part of the warp executes this wgmma.{instruction};") as caught:
        check(kernel, modes=["race"])
    (finding,) = caught.value.report.findings
    assert finding.kind == "wgmma" and source.splitlines()[finding.here.line - 1].endswith("// partial")


COPY = """
#include <tkjit/cp_async.cuh>

__global__ void copy(Globals g) {
    __shared__ alignas(16) float tile[64];
    __shared__ alignas(16) float input[64];
    input[threadIdx.x] = g.x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < 16) tkjit::cp_async_16(&tile[4 * threadIdx.x], &g.y[4 * threadIdx.x]);
    tkjit::cp_async_commit();
    BEFORE_THE_WAIT
    tkjit::cp_async_wait<0>();
    __syncthreads();
    AFTER_THE_WAIT
    g.y[threadIdx.x] = tile[threadIdx.x];
}
"""


def test_the_source_of_a_cp_async_is_read_until_the_copy_has_landed():
    signature = '(x: In[Tensor, "float32", 64], y: InOut[Tensor, "float32", 64, Align(16)]) -> Tensor'
    overwritten = "g.y[threadIdx.x] = 1;"
    for places, kinds in (
        ({"AFTER_THE_WAIT": overwritten}, []),
        ({"BEFORE_THE_WAIT": overwritten}, ["race"]),
    ):
        source = COPY
        for place in ("BEFORE_THE_WAIT", "AFTER_THE_WAIT"):
            source = source.replace(place, places.get(place, ""))
        kernel = define(source, signature, entry="copy", grid=1, block=64)
        try:
            found = check(kernel, modes=["race"]).findings
        except KernelCheckError as error:
            found = error.report.findings
        assert [finding.kind for finding in found] == kinds


WRITTEN = STORE.replace("AFTER_THE_WRITE", FENCE).replace(
    "tkjit::bulk_store_wait<0>();",
    "tkjit::bulk_store_wait_read<0>(); MORE if (g.y[3] != 2 * g.x[3]) __trap();",
)


@pytest.mark.parametrize(
    ("more", "kinds"),
    [
        ("", ["race"]),
        ("tkjit::bulk_store_wait<0>();", []),
        slow("__threadfence();", ["race"]),
        slow('asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");', []),
    ],
)
def test_a_wait_for_a_stores_reads_does_not_cover_its_writes(more, kinds):
    """As in a kernel that stores a tile, and then tells another block with a flag that the tile is there."""
    assert findings(WRITTEN.replace("MORE", more)) == kinds


@pytest.mark.parametrize(
    ("fence", "warns"),
    [
        ("", True),
        slow("fence_async_proxy();", False),
        slow('asm volatile("fence.mbarrier_init.release.cluster;");', False),
    ],
)
def test_an_mbarrier_of_a_copy_needs_a_fence(fence, warns):
    source = RELAY.replace("tkjit::fence_mbarrier_init();", fence.replace("fence_a", "tkjit::fence_a"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert findings(source) == []
    told = [str(one.message) for one in caught if issubclass(one.category, KernelCheckWarning)]
    assert len(told) == warns
    for text in told:
        assert "an asynchronous copy completes at an mbarrier, but may not see its initialisation; call" in text
        assert text.index("inline.cu:15") < text.index("inline.cu:12")  # the copy, and mbarrier_init


def test_what_a_copy_wrote_needs_no_fence():
    assert findings(RELAY, block=32) == []


@pytest.mark.parametrize(
    ("fence", "kinds"),
    [('asm volatile("fence.proxy.async.global;" ::: "memory");', []), (FENCE, ["proxy"]), slow("", ["proxy"])],
)
def test_a_copy_of_global_memory_that_the_kernel_wrote(fence, kinds):
    assert findings(LOAD, AFTER_THE_WRITE=fence) == kinds


def test_the_finding_names_the_fence_and_both_lines():
    source = STORE.replace("BEFORE_THE_WRITE", "").replace("AFTER_THE_WRITE", "").replace("AFTER_THE_BARRIER", "")
    kernel = define(source, VECTORS, entry="store", grid=1, block=64, shared_memory=CExpr("sizeof(Shared)"))
    with pytest.raises(KernelCheckError) as caught:
        check(kernel, modes=["race"])
    (finding,) = caught.value.report.findings
    lines = source.splitlines()
    assert "bulk_store_to_global" in lines[finding.here.line - 1] and finding.here.access == "asynchronous read"
    assert "shared->tile[threadIdx.x] =" in lines[finding.there.line - 1] and finding.there.access == "write"
    assert "execute fence.proxy.async (tkjit::fence_async_proxy()) after the write, before the barrier" in finding.text
