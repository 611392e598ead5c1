"""Races between the blocks of a cluster, through distributed shared memory and multicast copies."""

from __future__ import annotations

from functools import partial

import pytest
from support.define import define

from tkjit.testing import KernelCheckError, check

pytestmark = pytest.mark.compiles
slow = partial(pytest.param, marks=pytest.mark.slow)

SYNC = "cluster.sync();"
SWAPPED = """
#include <cooperative_groups.h>

__global__ void __cluster_dims__(2) swapped(Globals g) {
    __shared__ float tile[64];
    const auto cluster = cooperative_groups::this_cluster();
    const int i = blockIdx.x * 64 + threadIdx.x;
    tile[threadIdx.x] = g.x[i];
    FIRST
    const float* other = cluster.map_shared_rank(tile, cluster.block_rank() ^ 1);
    g.y[i] = other[63 - threadIdx.x];
    LAST
}
"""
VECTORS = '(x: In[Tensor, "float32", "N"], y: Out[Tensor, "float32", "N"]) -> Tensor'


def report_of(kernel, **options):
    try:
        return check(kernel, modes=["race"], **options)
    except KernelCheckError as error:
        return error.report


@pytest.mark.parametrize(
    ("first", "last", "finding"),
    [
        (SYNC, SYNC, ""),
        slow("cluster.barrier_arrive(); cluster.barrier_wait();", SYNC, ""),
        ("__syncthreads();", SYNC, "race: "),
        # a relaxed arrival waits, but orders nothing
        ("__cluster_barrier_arrive_relaxed(); __cluster_barrier_wait();", SYNC, "race: nothing orders"),
        (
            SYNC,
            "",
            "belongs to a block that has exited, or has not begun; let all blocks of the cluster meet at its barrier",
        ),
    ],
)
def test_distributed_shared_memory(first, last, finding):
    source = SWAPPED.replace("FIRST", first).replace("LAST", last)
    kernel = define(source, VECTORS, entry="swapped", grid="N // 64", block=64, constraints="N % 128 == 0")
    report = report_of(kernel, dims={"N": 256})
    assert bool(report.findings) == bool(finding)
    assert bool(report_of(kernel, dims={"N": 128}).findings) == bool(finding)  # a single cluster
    for found in report.findings:
        assert finding in str(found) and "other[63" in source.splitlines()[found.here.line - 1]


MULTICAST = """
#include <cooperative_groups.h>
#include <tkjit/bulk_copy.cuh>

// The first block of a cluster loads each tile for both blocks.
__global__ void __cluster_dims__(2) sums(Globals g) {
    __shared__ alignas(128) float tile[64];
    __shared__ uint64_t full, empty;
    const auto cluster = cooperative_groups::this_cluster();
    const unsigned rank = cluster.block_rank();
    if (threadIdx.x == 0) {
        tkjit::mbarrier_init(&full, 1);
        tkjit::mbarrier_init(&empty, COUNT);
        tkjit::fence_mbarrier_init();
    }
    cluster.sync();
    uint64_t* const empty_of_first = cluster.map_shared_rank(&empty, 0);
    const unsigned remote = __cvta_generic_to_shared(empty_of_first);
    float sum = 0;
    for (int step = 0; step < g.x.numel() / 64; ++step) {
        if (threadIdx.x == 0) {
            tkjit::mbarrier_arrive_expect_bytes(&full, sizeof tile);
            if (rank == 0) {
                if (step > 0) tkjit::mbarrier_wait(&empty, (step - 1) % 2);
                asm volatile(
                    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
                    " [%0], [%1], %2, [%3], %4;"
                    :: "r"(unsigned(__cvta_generic_to_shared(tile))), "l"(&g.x[step * 64]), "r"(unsigned(sizeof tile)),
                    "r"(unsigned(__cvta_generic_to_shared(&full))), "h"(uint16_t(3)) : "memory");
            }
        }
        tkjit::mbarrier_wait(&full, step % 2);
        sum += tile[threadIdx.x] * (rank + 1);
        ARRIVE asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(remote) : "memory");
    }
    g.y(blockIdx.x, threadIdx.x) = sum;
    cluster.sync();
}
"""


@pytest.mark.parametrize(
    ("count", "arrive", "finds"),
    [("128", "", False), ("64", "if (rank == 0)", True), slow("2", "if (threadIdx.x == 0)", True)],
)
def test_a_multicast_copy_waits_until_all_blocks_have_read(count, arrive, finds):
    source = MULTICAST.replace("COUNT", count).replace("ARRIVE", arrive)
    signature = '(x: In[Tensor, "float32", "N", Align(16)], y: InOut[Tensor, "float32", 2, 64])'
    kernel = define(source, signature, entry="sums", grid=2, block=64, constraints="N % 64 == 0")
    report = report_of(kernel, dims={"N": 320})
    assert {found.kind for found in report.findings} == ({"race"} if finds else set())
    assert report.warnings == []
