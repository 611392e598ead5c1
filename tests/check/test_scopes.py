"""Scopes of atomic operations and fences, and the fence after a compare-and-swap."""

from __future__ import annotations

import pytest
import torch
from support.sampling import sample

import tkjit
from tkjit import InOut, Tensor
from tkjit.testing import KernelCheckError, check

pytestmark = pytest.mark.compiles

# Block 0 writes data[0] and sets flag; block 1 waits for the flag and reads data[0].
PUBLISH = """#include <cuda/atomic>
__global__ void f(int* data, int* flag) {{
    if (threadIdx.x) return;
    if (blockIdx.x == 0) {{
        data[0] = 1;
        {publish}
    }} else {{
        {wait}
        data[1] = data[0];
    }}
}}"""
# Both blocks, or both threads of a block, add to data[0] while they hold a lock.
LOCK = """__global__ void f(int* data, int* lock) {{
    if (threadIdx.x % 32) return;
    {take}
    data[0] += 1;
    {give_back}
}}"""
WAIT = "while (atomicAdd(flag, 0) == 0) {}"
REF = "cuda::atomic_ref<int, cuda::thread_scope_{scope}> ref(*flag);"
PTX_SET = 'asm volatile("red.release.{scope}.global.add.s32 [%0], 1;" :: "l"(flag) : "memory");'
PTX_WAIT = """int seen;
        do asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
        while (seen == 0);"""
PTX_STORE = 'asm volatile("st.{order}.global.s32 [%0], 1;" :: "l"(flag) : "memory");'
GIVE_BACK = "__threadfence(); atomicExch(lock, 0);"
TAKE = "while (atomicCAS(lock, 0, 1) != 0) {}"


def published(publish: str, wait: str = WAIT) -> str:
    return PUBLISH.format(publish=publish, wait=wait)


def locked(take: str, give_back: str = GIVE_BACK) -> str:
    return LOCK.format(take=take, give_back=give_back)


# the source, the number of blocks, and a part of the finding, which is empty for a correct kernel
WARPS = """__global__ void f(int* data, int* flag) {{
    __shared__ int values[32];
    const int lane = threadIdx.x % 32;
    if (threadIdx.x < 32) {{
        values[lane] = lane;
        __threadfence_block();
        __syncwarp();
        if (lane == 0) {set}
    }} else {{
        while (atomicAdd(flag, 0) == 0) {{}}
        data[0] = values[5];
    }}
}}"""
CASES = {
    "fence": (published("__threadfence(); atomicExch(flag, 1);"), 2, ""),
    "fence_for_block": (published("__threadfence_block(); atomicExch(flag, 1);"), 2, "race: nothing orders"),
    "set_for_block": (
        published("__threadfence(); atomicExch_block(flag, 1);"),
        2,
        "atomic only for the block's threads",
    ),
    "cuda_atomic": (published(f"{REF.format(scope='device')} ref.store(1, cuda::memory_order_release);"), 2, ""),
    "cuda_atomic_for_block": (
        published(f"{REF.format(scope='block')} ref.store(1, cuda::memory_order_release);"),
        2,
        "atomic only for the block's threads",
    ),
    "cuda_fence_for_block": (
        published(
            "cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_block); atomicExch(flag, 1);"
        ),
        2,
        "race: nothing orders",
    ),
    "ptx": (published(PTX_SET.format(scope="gpu"), PTX_WAIT), 2, ""),
    "ptx_for_block": (published(PTX_SET.format(scope="cta"), PTX_WAIT), 2, "race"),
    "ptx_fence_for_block": (
        published('asm volatile("fence.acq_rel.cta;" ::: "memory"); atomicExch(flag, 1);'),
        2,
        "race: nothing orders",
    ),
    "ptx_for_cluster": (published(PTX_SET.format(scope="cluster"), PTX_WAIT), 2, "race"),
    "ptx_fence_for_cluster": (
        published('asm volatile("fence.acq_rel.cluster;" ::: "memory"); atomicExch(flag, 1);'),
        2,
        "race: nothing orders",
    ),
    "ptx_load_for_block": (
        published(PTX_SET.format(scope="gpu"), PTX_WAIT.replace(".gpu", ".cta")),
        2,
        "atomic only for the block's threads",
    ),
    "ptx_store": (published(PTX_STORE.format(order="release.gpu"), PTX_WAIT), 2, ""),
    "ptx_store_after_fence": (published(f"__threadfence(); {PTX_STORE.format(order='relaxed.sys')}", PTX_WAIT), 2, ""),
    "ptx_store_for_block": (
        published(PTX_STORE.format(order="release.cta"), PTX_WAIT),
        2,
        "atomic only for the block's threads",
    ),
    "ptx_relaxed_store": (published(PTX_STORE.format(order="relaxed.gpu"), PTX_WAIT), 2, "race: nothing orders"),
    "ptx_volatile_store": (published(PTX_STORE.format(order="volatile"), PTX_WAIT), 2, "race: nothing orders"),
    "fence_of_each_lane": (
        WARPS.format(set="atomicExch(flag, 1);").replace("data[0] =", "if (lane == 0) data[0] ="),
        1,
        "",
    ),
    "reset_beside_atomic": (
        "__global__ void f(int* data, int*) { if (threadIdx.x == 0) *data = 0;\natomicAdd_block(data, 1); }",
        1,
        "race: nothing orders two accesses to data + 0 bytes; put __syncthreads() between them",
    ),
    "lock": (locked(f"{TAKE} __threadfence();"), 2, ""),
    "lock_without_fence": (locked(TAKE), 2, "fence (--race): only atomicCAS, which orders nothing"),
    "lock_with_fence_for_block": (locked(f"{TAKE} __threadfence_block();"), 2, "fence (--race): only atomicCAS"),
    "lock_of_block": (
        locked(
            "while (atomicCAS_block(lock, 0, 1) != 0) {} __threadfence_block();",
            "__threadfence_block(); atomicExch_block(lock, 0);",
        ),
        1,
        "",
    ),
    "lock_of_block_between_blocks": (
        locked(
            "while (atomicCAS_block(lock, 0, 1) != 0) {} __threadfence_block();",
            "__threadfence_block(); atomicExch_block(lock, 0);",
        ),
        2,
        "atomic only for the block's threads",
    ),
}


@pytest.mark.parametrize("name", sample(CASES, "cuda_atomic_for_block", "ptx", "lock_of_block", "lock_without_fence"))
def test_scopes_and_fences(name):
    source, blocks, text = CASES[name]

    @tkjit.kernel(source, entry="f", grid=blocks, block=64 // blocks, args=True, cooperative=blocks > 1)
    def f(data: InOut[Tensor, "int32", 2], flag: InOut[Tensor, "int32", 1]) -> None: ...

    arguments = torch.zeros(2, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    if not text:
        assert check(f, *arguments, modes=["race"], strict=True).launches == 3
        return
    with pytest.raises(KernelCheckError) as caught:
        check(f, *arguments, modes=["race"], strict=True)
    assert text in str(caught.value)


# Block 0 publishes data[0], and another block reads it. Blocks 0 and 1 are a cluster.
IN_CLUSTERS = """__global__ void f(int* data, int* flag) {{
    if (threadIdx.x) return;
    if (blockIdx.x == 0) {{
        data[0] = 1;
        {publish}
    }} else if (blockIdx.x == {reader}) {{
        {wait}
        data[1] = data[0];
    }}
}}"""
PTX_FENCE = 'asm volatile("fence.acq_rel.cluster;" ::: "memory");'
FOR_CLUSTER = "atomic only for the cluster's threads"
OF_CLUSTER = {
    "set": (PTX_SET.format(scope="cluster"), PTX_WAIT, FOR_CLUSTER),
    "store": (PTX_STORE.format(order="release.cluster"), PTX_WAIT, FOR_CLUSTER),
    "load": (PTX_SET.format(scope="gpu"), PTX_WAIT.replace(".gpu", ".cluster"), FOR_CLUSTER),
    "both": (PTX_SET.format(scope="cluster"), PTX_WAIT.replace(".gpu", ".cluster"), FOR_CLUSTER),
    "fence": (f"{PTX_FENCE} atomicExch(flag, 1);", WAIT, "race: nothing orders"),
    "nvcc": (
        "__nv_atomic_store_n(flag, 1, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_CLUSTER);",
        "while (!__nv_atomic_load_n(flag, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_DEVICE)) {}",
        FOR_CLUSTER,
    ),
}


@pytest.mark.parametrize("reader", [1, 2])
@pytest.mark.parametrize("name", sample(OF_CLUSTER, "set", "fence"))
def test_the_scope_of_a_cluster_orders_accesses_only_within_the_cluster(name, reader):
    publish, wait, text = OF_CLUSTER[name]
    source = IN_CLUSTERS.format(publish=publish, wait=wait, reader=reader)

    @tkjit.kernel(source, entry="f", grid=4, block=32, args=True, cluster=2)
    def f(data: InOut[Tensor, "int32", 2], flag: InOut[Tensor, "int32", 1]) -> None: ...

    arguments = torch.zeros(2, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    if reader == 1:
        assert check(f, *arguments, modes=["race"], strict=True).launches == 3
        return
    with pytest.raises(KernelCheckError) as caught:
        check(f, *arguments, modes=["race"], strict=True)
    assert text in str(caught.value)


# Each block reads what the next block of its cluster has written, or the block itself if it is alone.
AT_THE_BARRIER = """#include <cooperative_groups.h>
__global__ void f(int* data, int*) {{
    __shared__ int values[32];
    const auto cluster = cooperative_groups::this_cluster();
    values[threadIdx.x] = threadIdx.x;
    {fence}
    asm volatile("barrier.cluster.arrive.relaxed.aligned;");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    const unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
    if (threadIdx.x == 0) data[blockIdx.x] = *cluster.map_shared_rank(&values[5], next);
    cluster.sync();
}}"""


@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("fence", [PTX_FENCE, ""], ids=["fence", "no fence"])
def test_a_relaxed_arrival_at_a_clusters_barrier_passes_on_the_last_fence(fence, blocks):
    source = AT_THE_BARRIER.format(fence=fence)

    @tkjit.kernel(source, entry="f", grid=2, block=32, args=True, cluster=blocks)
    def f(data: InOut[Tensor, "int32", 2], flag: InOut[Tensor, "int32", 1]) -> None: ...

    arguments = torch.zeros(2, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    if fence:
        assert check(f, *arguments, modes=["race"], strict=True).launches == 3
        return
    with pytest.raises(KernelCheckError, match="race: nothing orders two accesses to values"):
        check(f, *arguments, modes=["race"], strict=True)
