"""Bugs that users of other projects reported in 2025 and 2026, in kernels of our own with the same mistake.

Each passed its project's tests, and corrupted results later or on other machines.
"""

from __future__ import annotations

from functools import partial

import pytest
from support.define import define, host_function
from support.hopper.kernels import DIRECTORY as SOURCES
from support.hopper.kernels import SparseProduct

from tkjit.testing import KernelCheckError, check

pytestmark = pytest.mark.compiles
slow = partial(pytest.param, marks=pytest.mark.slow)
VECTORS = '(x: In[Tensor, "float32", "N", Align(16)], y: Out[Tensor, "float32", "N", Align(16)]) -> Tensor'

# https://github.com/MoonshotAI/FlashKDA/issues/24: the only fence is in a loop, which an empty sequence skips
STATE = """
#include <tkjit/bulk_copy.cuh>

__global__ void f(Globals g) {
    __shared__ alignas(128) float state[64];
    state[threadIdx.x] = 0;
    AFTER_ZEROING
    for (int first = 0; first < g.x.numel() - 64; first += 64) {
        state[threadIdx.x] += g.x[first + threadIdx.x];
        tkjit::fence_async_proxy();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        tkjit::bulk_store_to_global(&g.y[0], state, sizeof state);
        tkjit::bulk_store_commit();
        tkjit::bulk_store_wait<0>();
    }
}
"""
# https://github.com/deepseek-ai/DeepEP/issues/657: with two stages, waiting for all stores but one waits for none
STAGES = """
#include <tkjit/bulk_copy.cuh>

__global__ void f(Globals g) {
    __shared__ alignas(128) float stages[2][32];
    __shared__ uint64_t loaded[2];
    const int steps = g.x.numel() / 32;
    const auto load = [&](int step) {
        tkjit::mbarrier_arrive_expect_bytes(&loaded[step % 2], sizeof stages[0]);
        tkjit::bulk_copy_to_shared(stages[step % 2], &g.x[32 * step], sizeof stages[0], &loaded[step % 2]);
    };
    for (int stage = 0; stage < 2; ++stage) tkjit::mbarrier_init(&loaded[stage], 1);
    tkjit::fence_mbarrier_init();
    for (int step = 0; step < 2 && step < steps; ++step) load(step);
    for (int step = 0; step < steps; ++step) {
        tkjit::mbarrier_wait(&loaded[step % 2], step / 2 % 2);
        tkjit::bulk_store_to_global(&g.y[32 * step], stages[step % 2], sizeof stages[0]);
        tkjit::bulk_store_commit();
        tkjit::bulk_store_wait_read<PENDING>();
        if (step + 2 < steps) load(step + 2);
    }
    tkjit::bulk_store_wait<0>();
}
"""
# https://github.com/deepseek-ai/DeepEP/pull/642: a lane loads the next tile while other lanes may still read this one
RELOAD = """
#include <tkjit/bulk_copy.cuh>

__global__ void f(Globals g) {
    __shared__ alignas(128) float tile[32];
    __shared__ uint64_t loaded;
    if (threadIdx.x == 0) {
        tkjit::mbarrier_init(&loaded, 1);
        tkjit::fence_mbarrier_init();
    }
    __syncwarp();
    for (int step = 0; step < g.x.numel() / 32; ++step) {
        if (threadIdx.x == 0) {
            tkjit::mbarrier_arrive_expect_bytes(&loaded, sizeof tile);
            tkjit::bulk_copy_to_shared(tile, &g.x[32 * step], sizeof tile, &loaded);
        }
        tkjit::mbarrier_wait(&loaded, step % 2);
        g.y[32 * step + threadIdx.x] = tile[threadIdx.x];
        AFTER_READING
    }
}
"""
# https://github.com/NVIDIA/Fuser/pull/5448: the stores of all iterations are awaited only after the loop
STORES = """
#include <tkjit/bulk_copy.cuh>

__global__ void f(Globals g) {
    __shared__ alignas(128) float tile[32];
    for (int step = 0; step < g.x.numel() / 32; ++step) {
        tile[threadIdx.x] = 2 * g.x[32 * step + threadIdx.x];
        tkjit::fence_async_proxy();
        __syncthreads();
        if (threadIdx.x == 0) tkjit::bulk_store_to_global(&g.y[32 * step], tile, sizeof tile);
        AFTER_THE_STORE
        __syncthreads();
    }
    if (threadIdx.x == 0) tkjit::bulk_store_commit();
    tkjit::bulk_store_wait<0>();
}
"""
WAITED = "if (threadIdx.x == 0) { tkjit::bulk_store_commit(); tkjit::bulk_store_wait_read<0>(); }"


def kinds_of(kernel, *args, **options) -> set[str]:
    try:
        return {finding.kind for finding in check(kernel, *args, **options).findings}
    except KernelCheckError as error:
        return {finding.kind for finding in error.report.findings}


@pytest.mark.parametrize(
    ("source", "place", "wrong", "right", "block", "sizes", "kind"),
    [
        (STATE, "AFTER_ZEROING", "", "tkjit::fence_async_proxy();", 64, 64, "proxy"),
        (STAGES, "PENDING", "1", "0", 1, 160, "race"),
        slow(RELOAD, "AFTER_READING", "", "__syncwarp();", 32, 96, "race"),
        slow(STORES, "AFTER_THE_STORE", "", WAITED, 32, 96, "race"),
    ],
    ids=["FlashKDA-24", "DeepEP-657", "DeepEP-642", "Fuser-5448"],
)
def test_a_reported_bug(source, place, wrong, right, block, sizes, kind):
    for text, kinds in ((wrong, {kind}), (right, set())):
        kernel = define(source.replace(place, text), VECTORS, entry="f", grid=1, block=block)
        assert kinds_of(kernel, modes=["race"], dims={"N": sizes}) == kinds


# https://github.com/flashinfer-ai/flashinfer/pull/3835: a dependent launch copies what the one before may still write
DEPENDENT = """
#include <tkjit/bulk_copy.cuh>

__global__ void first(float* work, const float* x) { work[threadIdx.x] = 2 * x[threadIdx.x]; }

__global__ void second(float* y, const float* work) {
    __shared__ alignas(128) float tile[32];
    __shared__ uint64_t loaded;
    WAIT
    if (threadIdx.x == 0) {
        tkjit::mbarrier_init(&loaded, 1);
        tkjit::fence_mbarrier_init();
        tkjit::mbarrier_arrive_expect_bytes(&loaded, sizeof tile);
        tkjit::bulk_copy_to_shared(tile, work, sizeof tile, &loaded);
    }
    __syncthreads();
    tkjit::mbarrier_wait(&loaded, 0);
    y[threadIdx.x] = tile[threadIdx.x];
}

void both(float* x, float* y) {
    float* work = nullptr;
    cudaMalloc(&work, 32 * sizeof(float));
    first<<<1, 32>>>(work, x);
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = 1;
    config.blockDim = 32;
    config.attrs = &attribute;
    config.numAttrs = 1;
    cudaLaunchKernelEx(&config, second, y, static_cast<const float*>(work));
    cudaFree(work);
}
"""


@pytest.mark.parametrize(
    ("wait", "kinds"),
    [slow("cudaGridDependencySynchronize();", set()), ("", {"race"})],
    ids=["right", "FlashInfer-3835"],
)
def test_a_dependent_launch_copies_too_early(wait, kinds):
    kernel = host_function(
        DEPENDENT.replace("WAIT", wait), "both", '(x: In[Tensor, "float32", 32], y: InOut[Tensor, "float32", 32])'
    )
    assert kinds_of(kernel, modes=["race"]) == kinds


@pytest.mark.parametrize(
    ("fence", "kinds"), [("fence_proxy();", set()), ("", {"proxy"})], ids=["right", "tilelang-2634"]
)
def test_a_sparse_product_needs_the_fence_of_a_dense_one(fence, kinds):
    """https://github.com/tile-ai/tilelang/issues/2634: only the dense products got the fence after generic writes."""
    source = (SOURCES / "sparse.cu").read_text().replace("    fence_proxy();", f"    {fence}")
    product = SparseProduct("bf16")
    a, metadata, b, _ = product.inputs()
    assert kinds_of(product.define(source), a, metadata, b, modes=["race"]) == kinds
