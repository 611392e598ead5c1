"""Kernels that use libcu++'s barriers and PTX functions: the right ones give right results and no finding."""

from __future__ import annotations

import pytest
import torch
from support.define import define
from support.sampling import sample

import tkjit
from tkjit.compile.targets import gpu_target
from tkjit.spec import variants_of
from tkjit.testing import KernelCheckError, check

pytestmark = pytest.mark.compiles

OPENING = """
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/ptx>
#include <cooperative_groups.h>
#include <tkjit/gl.h>
namespace ptx = cuda::ptx;
namespace cde = cuda::device::experimental;
using barrier = cuda::barrier<cuda::thread_scope_block>;
"""

# of the CUDA C++ Programming Guide's kind: each thread waits for a copy of all threads, and adds one
COPY = """
__global__ void f(const __grid_constant__ Globals g) {
    __shared__ alignas(16) float tile[256];
    __shared__ barrier ready;
    const auto block = cooperative_groups::this_thread_block();
    if (threadIdx.x == 0) init(&ready, blockDim.x);
    block.sync();
    cuda::memcpy_async(block, tile, &g.x[0], cuda::aligned_size_t<16>(sizeof(tile)), ready);
    WAIT
    for (int i = threadIdx.x; i < 256; i += blockDim.x) g.y[i] = tile[255 - i] + 1;
}
"""

TMA = """
__global__ void f(const __grid_constant__ Globals g) {
    __shared__ alignas(128) float tile[256];
    __shared__ barrier ready;
    if (threadIdx.x == 0) {
        init(&ready, blockDim.x);
        FENCE_INIT
    }
    __syncthreads();
    barrier::arrival_token token;
    if (threadIdx.x == 0) {
        cde::cp_async_bulk_global_to_shared(tile, &g.x[0], sizeof(tile), ready);
        token = cuda::device::barrier_arrive_tx(ready, 1, BYTES);
    } else {
        token = ready.arrive();
    }
    ready.wait(std::move(token));
    for (int i = threadIdx.x; i < 256; i += blockDim.x) tile[i] += 1;
    FENCE
    __syncthreads();
    if (threadIdx.x == 0) {
        ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, &g.y[0], tile, sizeof(tile));
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
    }
}
"""

# a producer and consumers, with barriers of one phase for each of two stages
RING = """
__device__ inline void wait(uint64_t* barrier, uint32_t parity) {
    while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cta, barrier, parity)) {}
}
__global__ void f(const __grid_constant__ Globals g) {
    __shared__ alignas(128) float tile[2][64];
    __shared__ uint64_t full[2], empty[2];
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; ++i) {
            ptx::mbarrier_init(&full[i], 1);
            ptx::mbarrier_init(&empty[i], 64);
        }
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    }
    __syncthreads();
    if (threadIdx.x == 64) {
        for (int i = 0; i < 4; ++i) {
            EMPTY
            ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full[i % 2], 256);
            ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, tile[i % 2], &g.x[64 * i], 256, &full[i % 2]);
        }
    } else if (threadIdx.x < 64) {
        for (int i = 0; i < 4; ++i) {
            wait(&full[i % 2], FULL);
            g.y[64 * i + threadIdx.x] = tile[i % 2][63 - threadIdx.x];
            ptx::mbarrier_arrive(&empty[i % 2]);
        }
    }
}
"""

CLUSTER = """
__global__ void f(const __grid_constant__ Globals g) {
    __shared__ float values[128];
    const unsigned rank = ptx::get_sreg_cluster_ctarank();
    values[threadIdx.x] = g.x[128 * rank + threadIdx.x];
    ptx::barrier_cluster_arrive(ORDER);
    ptx::barrier_cluster_wait();
    g.y[128 * rank + threadIdx.x] = cooperative_groups::this_cluster().map_shared_rank(values, rank ^ 1)[threadIdx.x];
    ptx::barrier_cluster_arrive();
    ptx::barrier_cluster_wait();
}
"""

THREAD_PIPELINE = """
__global__ void f(const __grid_constant__ Globals g) {
    __shared__ alignas(16) float tile[2][128];
    auto pipe = cuda::make_pipeline();
    for (int i = 0; i < 2; ++i) {
        pipe.producer_acquire();
        cuda::memcpy_async(&tile[i][threadIdx.x], &g.x[128 * i + threadIdx.x], sizeof(float), pipe);
        pipe.producer_commit();
    }
    for (int i = 0; i < 2; ++i) {
        WAIT
        __syncthreads();
        g.y[128 * i + threadIdx.x] = tile[i][127 - threadIdx.x];
        pipe.consumer_release();
    }
}
"""

BLOCK_PIPELINE = """
__global__ void f(const __grid_constant__ Globals g) {
    __shared__ alignas(16) float tile[2][64];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    const auto block = cooperative_groups::this_thread_block();
    const auto role = threadIdx.x < 32 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
    auto pipe = cuda::make_pipeline(block, &state, role);
    for (int i = 0; i < 4; ++i) {
        if (role == cuda::pipeline_role::producer) {
            ACQUIRE
            for (int k = threadIdx.x; k < 64; k += 32)
                cuda::memcpy_async(&tile[i % 2][k], &g.x[64 * i + k], sizeof(float), pipe);
            pipe.producer_commit();
        } else {
            pipe.consumer_wait();
            g.y[64 * i + threadIdx.x - 32] = tile[i % 2][95 - threadIdx.x];
            pipe.consumer_release();
        }
    }
}
"""

GRID = """
__device__ cuda::barrier<cuda::thread_scope_device> all;
__global__ void f(const __grid_constant__ Globals g) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) init(&all, blockDim.x * gridDim.x);
    cooperative_groups::this_grid().sync();
    g.y[i] = g.x[i];
    WAIT
    g.x[i] = g.y[255 - i];
}
"""

RIGHT = {
    "copy": (COPY, {"WAIT": "ready.arrive_and_wait();"}, lambda x: x.flip(0) + 1),
    "copy with a token": (COPY, {"WAIT": "ready.wait(ready.arrive());"}, lambda x: x.flip(0) + 1),
    "tma": (
        TMA,
        {
            "FENCE_INIT": "cde::fence_proxy_async_shared_cta();",
            "BYTES": "sizeof(tile)",
            "FENCE": "cde::fence_proxy_async_shared_cta();",
        },
        lambda x: x + 1,
    ),
    "ring": (
        RING,
        {"EMPTY": "if (i >= 2) wait(&empty[i % 2], i / 2 - 1);", "FULL": "i / 2"},
        lambda x: x.view(4, 64).flip(1).flatten(),
    ),
    "cluster": (CLUSTER, {"ORDER": "ptx::sem_release"}, lambda x: x.view(2, 128).flip(0).flatten()),
    "thread pipeline": (
        THREAD_PIPELINE,
        {"WAIT": "pipe.consumer_wait();"},
        lambda x: x.view(2, 128).flip(1).flatten(),
    ),
    "block pipeline": (
        BLOCK_PIPELINE,
        {"ACQUIRE": "pipe.producer_acquire();"},
        lambda x: x.view(4, 64).flip(1).flatten(),
    ),
}
WRONG = {
    "copy": ({"WAIT": "ready.arrive();"}, "wait for"),
    "tma": ({"FENCE": ""}, "cannot see a thread's write"),
    "ring": ({"EMPTY": ""}, "asynchronous copy"),
    "cluster": ({"ORDER": "ptx::sem_relaxed"}, "nothing orders"),
    "thread pipeline": ({"WAIT": "cuda::pipeline_consumer_wait_prior<1>(pipe);"}, "nothing orders"),
    "block pipeline": ({"ACQUIRE": ""}, "nothing orders"),
}
SHAPES = {"copy": (1, 128), "copy with a token": (1, 128), "tma": (1, 128), "ring": (1, 96), "cluster": (2, 128)}
SHAPES |= {"thread pipeline": (1, 128), "block pipeline": (1, 96)}


def kernel(name: str, **changed: str) -> tkjit.Kernel:
    template, parts, _ = RIGHT[name]
    source = OPENING + template
    for part, text in {**parts, **changed}.items():
        source = source.replace(part, text)
    grid, block = SHAPES[name]
    options = {"grid": grid, "block": block, "cluster": (grid, 1, 1) if grid > 1 else None}
    signature = '(x: In[Tensor, "float32", 256], y: Out[Tensor, "float32", 256]) -> Tensor'
    return define(source, signature, entry="f", **{key: value for key, value in options.items() if value is not None})


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_kernel(name):
    made = kernel(name)
    x = torch.randn(256)
    assert torch.equal(made(x), RIGHT[name][2](x))
    check(made)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_kernel_is_found(name):
    changed, text = WRONG[name]
    with pytest.raises(KernelCheckError, match=text):
        check(kernel(name, **changed), modes=("race",))


def test_a_barrier_of_several_blocks():
    """A kernel writes what other blocks read, in the order that a barrier in global memory gives."""
    signature = '(x: InOut[Tensor, "float32", 256], y: Scratch[Tensor, "float32", 256]) -> Tensor'
    options = {"entry": "f", "grid": 2, "block": 128, "cooperative": True}
    right = define(OPENING + GRID.replace("WAIT", "all.arrive_and_wait();"), signature, **options)
    x = torch.randn(256)
    expected = x.flip(0)
    assert torch.equal(right(x), expected)
    check(right, modes=("race",))
    with pytest.raises(KernelCheckError, match="nothing orders"):
        check(define(OPENING + GRID.replace("WAIT", ""), signature, **options), modes=("race",))


@pytest.mark.nvcc
@pytest.mark.parametrize("name", sample(RIGHT, "tma", "ring"))
def test_nvcc_compiles_the_kernel(loader, name):
    spec = kernel(name).specs[0]
    assert loader.launcher(spec, variants_of(spec)[0], gpu_target("90a")).manifest["registers"] > 0
