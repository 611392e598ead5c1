"""Clusters: barriers, distributed shared memory, multicast copies, and mbarriers of other blocks."""

from __future__ import annotations

import pytest
import torch
from support.define import define, host_function
from support.sampling import sample

from tkjit import Kernel, LaunchError, ToolchainError

pytestmark = pytest.mark.compiles
VECTORS = '(x: In[Tensor, "float32", "N"], y: Out[Tensor, "float32", "N"]) -> Tensor'
DOUBLED = "{ g.y[blockIdx.x * blockDim.x + threadIdx.x] = 2 * g.x[blockIdx.x * blockDim.x + threadIdx.x]; }"

# each block reverses the elements of its neighbour
GROUPS = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void DIMS swapped(Globals g) {
    __shared__ float tile[64];
    const auto cluster = cg::this_cluster();
    const int i = blockIdx.x * 64 + threadIdx.x;
    tile[threadIdx.x] = g.x[i];
    cluster.sync();
    const float* other = cluster.map_shared_rank(tile, cluster.block_rank() ^ 1);
    g.y[i] = other[63 - threadIdx.x];
    if (cluster.thread_rank() != cluster.block_rank() * 64 + threadIdx.x) __trap();
    if (cluster.query_shared_rank(other) != (cluster.block_rank() ^ 1)) __trap();
    cluster.sync();
}
"""
PTX = """
__device__ unsigned special() {
    unsigned rank, blocks, x, width, number;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
    asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(x));
    asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(width));
    asm("mov.u32 %0, %%clusterid.x;" : "=r"(number));
    if (blocks != 2 || x != rank || width != 2 || number != blockIdx.x / 2) __trap();
    return rank;
}

__global__ void swapped(Globals g) {
    __shared__ float tile[64];
    const int i = blockIdx.x * 64 + threadIdx.x;
    const unsigned own = __cvta_generic_to_shared(&tile[63 - threadIdx.x]);
    unsigned place, found;
    float value, same;
    uint64_t generic;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(place) : "r"(own), "r"(special() ^ 1));
    asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(found) : "r"(place));
    if (found != (special() ^ 1)) __trap();
    tile[threadIdx.x] = g.x[i];
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(place) : "memory");
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(generic) : "l"(&tile[63 - threadIdx.x]), "r"(found));
    asm volatile("ld.f32 %0, [%1];" : "=f"(same) : "l"(generic) : "memory");
    g.y[i] = value == same ? value : -1;
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}
"""


def swapped(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(-1, 2, 64).flip(1, 2).reshape(-1)


def kernel_of(source: str, **options) -> Kernel:
    return define(source, VECTORS, entry="swapped", grid="N // 64", block=64, **options)


@pytest.mark.parametrize(
    ("source", "options"),
    [
        (GROUPS.replace("DIMS", "__cluster_dims__(2, 1, 1)"), {}),
        (GROUPS.replace("DIMS", ""), {"cluster": 2}),
        (PTX, {"cluster": 2}),
    ],
)
def test_blocks_read_each_others_shared_memory(source, options):
    kernel = kernel_of(source, **options)
    for blocks in (2, 200):
        x = torch.randn(64 * blocks)
        assert torch.equal(kernel(x), swapped(x))


def test_the_upper_bits_of_a_shared_address_are_the_rank():
    """CUTLASS clears the lowest of them, to reach the first block of a pair."""
    source = """
    __global__ void swapped(Globals g) {
        __shared__ float own;
        const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(&own));
        if (address >> 24 != blockIdx.x % 4) __trap();
        own = -1;
        asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
        if (blockIdx.x % 2)
            asm volatile("st.shared::cluster.f32 [%0], %1;"
                         :: "r"(address & 0xfeffffff), "f"(g.x[blockIdx.x]) : "memory");
        asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
        g.y[blockIdx.x] = own;
    }
    """
    y = define(source, VECTORS, entry="swapped", grid="N", block=1, cluster=4)(torch.arange(8.0))
    assert y.tolist() == [1, -1, 3, -1, 5, -1, 7, -1]


def test_a_cluster_in_three_dimensions():
    source = """
    #include <cooperative_groups.h>

    __global__ void ranks(Globals g) {
        const auto cluster = cooperative_groups::this_cluster();
        const dim3 place = cluster.block_index(), dims = cluster.dim_blocks();
        const dim3 index = __clusterIdx(), clusters = __clusterGridDimInClusters();
        if (cluster.num_blocks() != 6 || clusters.x != 2 || clusters.y != 2 || clusters.z != 1) __trap();
        if (cluster.block_rank() != place.x + dims.x * (place.y + dims.y * place.z)) __trap();
        const unsigned number = index.x + clusters.x * (index.y + clusters.y * index.z);
        const float x = g.x(0, blockIdx.z, blockIdx.y, blockIdx.x);
        g.y(0, blockIdx.z, blockIdx.y, blockIdx.x) = x + 10 * number + cluster.block_rank();
    }
    """
    signature = '(x: In[Tensor, "float32", 3, 2, 4], y: Out[Tensor, "float32", 3, 2, 4]) -> Tensor'
    y = define(source, signature, entry="ranks", grid=(4, 2, 3), block=1, cluster=(2, 1, 3))(torch.zeros(3, 2, 4))
    expected = [[[10 * (x // 2 + 2 * y) + x % 2 + 2 * z for x in range(4)] for y in range(2)] for z in range(3)]
    assert y.tolist() == expected


MULTICAST = """
#include <tkjit/bulk_copy.cuh>

// The first block of a cluster loads one tile for all blocks. Each of them tells it when it may load the next one.
__global__ void sums(Globals g) {
    __shared__ alignas(128) float tile[64];
    __shared__ uint64_t full, empty;
    unsigned rank, blocks;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
    if (threadIdx.x == 0) {
        tkjit::mbarrier_init(&full, 1);
        tkjit::mbarrier_init(&empty, blocks * 64);
        tkjit::fence_mbarrier_init();
    }
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    const unsigned own_empty = __cvta_generic_to_shared(&empty);
    unsigned empty_of_first;
    asm volatile("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(empty_of_first) : "r"(own_empty));
    float sum = 0;
    const int steps = g.x.numel() / 64;
    for (int step = 0; step < steps; ++step) {
        if (threadIdx.x == 0) {
            tkjit::mbarrier_arrive_expect_bytes(&full, sizeof tile);
            if (rank == 0) {
                if (step > 0) tkjit::mbarrier_wait(&empty, (step - 1) % 2);
                asm volatile(
                    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
                    " [%0], [%1], %2, [%3], %4;"
                    :: "r"(unsigned(__cvta_generic_to_shared(tile))), "l"(&g.x[step * 64]), "r"(unsigned(sizeof tile)),
                    "r"(unsigned(__cvta_generic_to_shared(&full))), "h"(uint16_t((1 << blocks) - 1)) : "memory");
            }
        }
        tkjit::mbarrier_wait(&full, step % 2);
        sum += tile[threadIdx.x] * (rank + 1);
        asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(empty_of_first) : "memory");
    }
    g.y(blockIdx.x, threadIdx.x) = sum;
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
"""


def test_one_block_loads_for_all_of_its_cluster():
    signature = '(x: In[Tensor, "float32", "N", Align(16)], y: InOut[Tensor, "float32", "B", 64])'
    kernel = define(MULTICAST, signature, entry="sums", grid="B", block=64, cluster=4)
    x, y = torch.randn(64 * 5), torch.zeros(8, 64)
    kernel(x, y)
    expected = x.reshape(5, 64).sum(0) * torch.tensor([1.0, 2, 3, 4, 1, 2, 3, 4])[:, None]
    torch.testing.assert_close(y, expected)


def test_asynchronous_stores_to_another_block():
    source = """
    #include <tkjit/mbarrier.cuh>

    __global__ void swapped(Globals g) {
        __shared__ float tile[64];
        __shared__ uint64_t loaded;
        unsigned rank, place, barrier;
        asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
        if (threadIdx.x == 0) {
            tkjit::mbarrier_init(&loaded, 1);
            tkjit::fence_mbarrier_init();
            tkjit::mbarrier_arrive_expect_bytes(&loaded, sizeof tile);
        }
        __cluster_barrier_arrive();
        __cluster_barrier_wait();
        const unsigned own_place = __cvta_generic_to_shared(&tile[63 - threadIdx.x]);
        const unsigned own_barrier = __cvta_generic_to_shared(&loaded);
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(place) : "r"(own_place), "r"(rank ^ 1));
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(barrier) : "r"(own_barrier), "r"(rank ^ 1));
        const int i = blockIdx.x * 64 + threadIdx.x;
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(place),
                     "f"(g.x[i]), "r"(barrier) : "memory");
        tkjit::mbarrier_wait(&loaded, 0);
        g.y[i] = tile[threadIdx.x];
    }
    """
    x = torch.randn(64 * 6)
    assert torch.equal(kernel_of(source, cluster=2)(x), swapped(x))


BARRIERS = """
#include <cooperative_groups.h>

__global__ void __cluster_dims__(2) f(Globals g) {
    const auto cluster = cooperative_groups::this_cluster();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    BODY
}
"""


@pytest.mark.parametrize(
    "body",
    [
        # a thread may arrive and exit without waiting, and does not count twice
        """__shared__ float tile[2];
        tile[threadIdx.x] = g.x[i];
        cluster.barrier_arrive();
        if (cluster.thread_rank() == 0) { g.y[i] = 2 * g.x[i]; return; }
        cluster.barrier_wait();
        cluster.barrier_arrive();
        cluster.barrier_wait();
        g.y[i] = 2 * tile[threadIdx.x];""",
        # the blocks reach their variables in different orders
        """float* own;
        if (cluster.block_rank() == 0) { __shared__ float a[2]; own = a; } else { __shared__ float b[2]; own = b; }
        __shared__ float tile[2];
        own[threadIdx.x] = -1;
        tile[threadIdx.x] = g.x[i];
        cluster.sync();
        const float value = cluster.map_shared_rank(tile, cluster.block_rank() ^ 1)[threadIdx.x];
        g.y[i] = value + g.x[i];
        cluster.sync();""",
        # threads that poll let the other blocks run
        """__shared__ int ready;
        if (threadIdx.x == 0) ready = 0;
        cluster.sync();
        if (cluster.block_rank() == 1) atomicExch(cluster.map_shared_rank(&ready, 0), 1);
        while (cluster.block_rank() == 0 && atomicAdd(&ready, 0) == 0) {}
        cluster.sync();
        g.y[i] = 2 * g.x[i];""",
    ],
)
def test_clusters_that_were_once_wrong(body):
    kernel = define(BARRIERS.replace("BODY", body), VECTORS, entry="f", grid="N // 2", block=2)
    for blocks in (2, 64):
        assert kernel(torch.ones(2 * blocks)).tolist() == [2] * (2 * blocks)


def test_a_launch_of_clusters_after_one_of_blocks_that_waited():
    """The blocks' states are kept from launch to launch."""
    waits = """
    __device__ int arrived;
    __global__ void f(Globals g) {
        const int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (threadIdx.x == 0) {
            atomicAdd(&arrived, 1);
            while (atomicAdd(&arrived, 0) % gridDim.x) {}
        }
        g.y[i] = 2 * g.x[i];
    }
    """
    many = "cluster.sync(); for (int n = 0; n < 1000; ++n) __syncthreads(); g.y[i] = 2 * g.x[i]; cluster.sync();"
    for source in (waits, BARRIERS.replace("BODY", many)):
        kernel = define(source, VECTORS, entry="f", grid=16, block=32)
        assert kernel(torch.ones(512)).tolist() == [2] * 512


def test_addresses_of_variables_outside_of_the_window():
    """In a source that is compiled in one step, static variables are outside, and their addresses convert both ways."""
    source = """__global__ void f(Globals g) {
        __shared__ float tile[2];
        tile[threadIdx.x] = g.x[threadIdx.x];
        const float* same = static_cast<float*>(__cvta_shared_to_generic(__cvta_generic_to_shared(tile)));
        g.y[threadIdx.x] = 2 * same[threadIdx.x];
    }"""
    assert define(source, VECTORS, entry="f", grid=1, block=2)(torch.ones(2)).tolist() == [2, 2]


def test_a_copy_to_a_block_that_has_exited():
    body = """__shared__ alignas(16) float tile[32];
    __shared__ uint64_t full;
    if (threadIdx.x == 0) tkjit::mbarrier_init(&full, 1);
    cluster.sync();
    if (cluster.block_rank() == 1) return;
    cluster.sync();  // does not wait for threads that have exited
    float* const other = cluster.map_shared_rank(tile, 1);
    uint64_t* const barrier = cluster.map_shared_rank(&full, 1);
    if (threadIdx.x == 0) tkjit::bulk_copy_to_shared(other, &g.x[0], sizeof tile, barrier);
    """
    source = "#include <tkjit/bulk_copy.cuh>\n" + BARRIERS.replace("BODY", body)
    signature = VECTORS.replace('"N"]', '"N", Align(16)]')
    kernel = define(source, signature, entry="f", grid=2, block=32)
    with pytest.raises(LaunchError, match="a copy to the block of rank 1 of the cluster, which has exited"):
        kernel(torch.ones(64))


def test_host_code_launches_clusters():
    source = f"""
    {GROUPS.replace("DIMS", "").replace("Globals g", "float* y, const float* x").replace("g.", "")}
    void launch(float* x, float* y, int n) {{
        cudaLaunchAttribute attribute;
        attribute.id = cudaLaunchAttributeClusterDimension;
        attribute.val.clusterDim.x = 2;
        attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
        cudaLaunchConfig_t config = {{}};
        config.gridDim = n / 64;
        config.blockDim = 64;
        config.attrs = &attribute;
        config.numAttrs = 1;
        cudaLaunchKernelEx(&config, swapped, y, static_cast<const float*>(x));
    }}
    """
    signature = '(x: In[Tensor, "float32", "n"], y: InOut[Tensor, "float32", "n"], n: int)'
    x, y = torch.randn(64 * 4), torch.zeros(64 * 4)
    host_function(source, "launch", signature)(x, y, 64 * 4)
    assert torch.equal(y, swapped(x))


@pytest.mark.parametrize(
    ("declared", "entry"),
    [
        pytest.param("__global__ void __cluster_dims__(1, 1, 1) f(Globals g)", "f", marks=pytest.mark.slow),
        pytest.param("__global__ __cluster_dims__(1) void f(Globals g)", "f", marks=pytest.mark.slow),
        ("template <int N> __global__ void __cluster_dims__(N) f(Globals g)", "f<1>"),
        ("__global__ void __cluster_dims__(2, 1, 1) f(Globals g)", "f"),
        ("namespace a {\n__global__ void __launch_bounds__(64) __cluster_dims__(2) f(Globals g)", "a::f"),
    ],
)
def test_declared_clusters(declared, entry):
    source = f"{declared} {DOUBLED} {'}' if 'namespace' in declared else ''}"
    kernel = define(source, VECTORS, entry=entry, grid=2, block=3)
    assert kernel(torch.ones(6)).tolist() == [2] * 6


@pytest.mark.parametrize("blocks", sample([1, 2, 4], "2"))
def test_the_declared_cluster_of_a_template_depends_on_its_instance(blocks):
    source = """
    template <int N, typename... Ts>
    __global__ void __cluster_dims__(N, 1) sizes(Globals g) {
        unsigned size;
        asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(size));
        g.y[blockIdx.x] = g.x[blockIdx.x] + size;
    }
    """
    kernel = define(source, VECTORS, entry=f"sizes<{blocks}, int, float>", grid="N", block=1)
    assert kernel(torch.zeros(8)).tolist() == [blocks] * 8


def test_a_cluster_that_is_declared_in_a_header_is_rejected(tmp_path):
    (tmp_path / "doubled.cuh").write_text(f"__global__ void __cluster_dims__(2) f(tkjit_globals g) {DOUBLED}")
    (tmp_path / "f.cu").write_text('#define tkjit_globals Globals\n#include "doubled.cuh"\n')
    with pytest.raises(ToolchainError, match=r"declares the cluster of a kernel in a header"):
        define(tmp_path / "f.cu", VECTORS, entry="f", grid=2, block=3)(torch.ones(6))


@pytest.mark.parametrize("parameter", ["int", "size_t N, unsigned int"])
def test_the_cluster_of_a_template_with_an_unnamed_parameter_is_rejected(parameter):
    source = f"template <{parameter}> __global__ void __cluster_dims__(2) f(Globals g) {DOUBLED}"
    with pytest.raises(ToolchainError, match=r"or of a template with an unnamed parameter"):
        define(source, VECTORS, entry="f<1, 1>" if "," in parameter else "f<1>", grid=2, block=3)(torch.ones(6))


def test_clusters_wait_for_clusters_with_higher_numbers():
    source = """
    __global__ void __cluster_dims__(2, 1, 1) last_first(Globals g) {
        volatile float* y = g.y.raw_ptr;
        if (blockIdx.x + 2 < gridDim.x) while (y[blockIdx.x + 2] == 0) __nanosleep(20);
        y[blockIdx.x] = y[blockIdx.x + 2 < gridDim.x ? blockIdx.x + 2 : blockIdx.x] + 1;
    }
    """
    signature = '(x: In[Tensor, "float32", "N"], y: Out[Tensor, "float32", "N", Zero]) -> Tensor'
    kernel = define(source, signature, entry="last_first", grid="N", block=1)
    y = kernel(torch.zeros(120))
    assert y.tolist() == [60 - i // 2 for i in range(120)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"N": 64 * 3}, r"a grid of \(3, 1, 1\) blocks does not consist of clusters of \(2, 1, 1\) blocks"),
        ({"rank": "7"}, r"the cluster has no block of rank 7; it has 2 blocks, in block .*inline\.cu:11"),
        (
            {"once": True},
            r"deadlock in block \(0, 0, 0\)[^;]*\n  64 of 64 threads, .* wait in barrier\.cluster \(inline\.cu:15\)",
        ),
    ],
)
def test_wrong_clusters(change, message):
    source = GROUPS.replace("DIMS", "").replace(
        "cluster.block_rank() ^ 1);", f"{change.get('rank', 'cluster.block_rank() ^ 1')});", 1
    )
    if "once" in change:  # a thread of the second block waits for its block instead
        last = "if (cluster.thread_rank() == 127) cg::this_thread_block().sync(); else cluster.sync();\n}"
        source = source.replace("cluster.sync();\n}", last)
    with pytest.raises(LaunchError, match=message):
        kernel_of(source, cluster=2)(torch.randn(change.get("N", 128)))
