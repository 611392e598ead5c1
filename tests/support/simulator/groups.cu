// Kernels for the tests of cooperative groups and cuda::atomic.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/atomic>
#include <cuda/std/atomic>
#include <cuda_runtime.h>

#ifdef TKJIT_SIM
#define EXPORT extern "C" __attribute__((visibility("default")))
#endif

namespace cg = cooperative_groups;

// ---- groups; `result` has a row for each query, and a column for each thread
__global__ void block_and_grid(int* result) {
    const cg::thread_block block = cg::this_thread_block();
    const cg::grid_group grid = cg::this_grid();
    const int column = static_cast<int>(grid.thread_rank()), columns = static_cast<int>(grid.size());
    const auto put = [&](int row, int value) { result[row * columns + column] = value; };
    put(0, block.thread_rank());
    put(1, block.size());
    put(2, block.group_index().x + 100 * block.group_index().y);
    put(3, block.thread_index().x + 100 * block.thread_index().y);
    put(4, block.dim_threads().x + 100 * block.dim_threads().y);
    put(5, static_cast<int>(grid.num_blocks()) + 100 * static_cast<int>(grid.block_rank()));
    const cg::thread_group any = block;
    put(6, static_cast<int>(any.size()) + 1000 * static_cast<int>(any.thread_rank()));
}

template <unsigned size>
__global__ void tiles(const int* x, int* result) {
    const cg::thread_block block = cg::this_thread_block();
    const auto tile = cg::tiled_partition<size>(block);
    const int rank = tile.thread_rank(), column = block.thread_rank(), value = x[column];
    const auto put = [&](int row, int answer) { result[row * int(blockDim.x) + column] = answer; };
    put(0, rank + 100 * tile.num_threads());
    put(1, tile.meta_group_rank() + 100 * tile.meta_group_size());
    put(2, tile.shfl(value, 1));
    put(3, tile.shfl_up(value, 1));
    put(4, tile.shfl_down(value, 1));
    put(5, tile.shfl_xor(value, 1));
    put(6, tile.ballot(value % 2));
    put(7, tile.any(value == 3) + 10 * tile.all(value < 90));
    put(8, tile.match_any(value % 3));
    put(9, cg::reduce(tile, value, cg::plus<int>()));
    put(10, cg::reduce(tile, value, cg::greater<int>()));
    put(11, cg::reduce(tile, value, [](int a, int b) { return a ^ b; }));
    put(12, cg::inclusive_scan(tile, value));
    put(13, cg::exclusive_scan(tile, value, cg::plus<int>()));
    cg::sync(tile);
}

__global__ void tile_of_a_tile(int* result) {
    const cg::thread_block block = cg::this_thread_block();
    const cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    const auto quad = cg::tiled_partition<4>(warp);
    const cg::thread_group half = cg::tiled_partition(cg::thread_group(block), 16);
    half.sync();
    result[block.thread_rank()] = quad.thread_rank() + 10 * quad.meta_group_rank() + 100 * quad.meta_group_size() +
                                  1000 * int(half.thread_rank()) + 100000 * int(half.size());
}

// A coalesced group of every third lane, and groups by label.
__global__ void coalesced(const int* x, int* result) {
    const int column = threadIdx.x, value = x[column];
    const auto put = [&](int row, int answer) { result[row * int(blockDim.x) + column] = answer; };
    if (column % 3 == 1) {
        const cg::coalesced_group group = cg::coalesced_threads();
        put(0, group.thread_rank() + 100 * group.size());
        put(1, group.shfl(value, 2));
        put(2, group.shfl_down(value, 1));
        put(3, group.ballot(value > 50));
        put(4, cg::reduce(group, value, cg::less<int>()));
        put(5, cg::exclusive_scan(group, value));
    }
    const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    const cg::coalesced_group same = cg::labeled_partition(warp, value % 4);
    put(6, same.thread_rank() + 100 * same.size());
    const cg::coalesced_group parity = cg::binary_partition(warp, value % 2 == 0);
    put(7, cg::reduce(parity, 1, cg::plus<int>()) + 100 * parity.shfl(value, 0));
    cg::invoke_one(same, [&] { put(8, 1); });
}

__global__ void staged_copy(const int* x, int* y, int early) {
    __shared__ __align__(16) int tile[256];
    const cg::thread_block block = cg::this_thread_block();
    tile[threadIdx.x] = -1;
    block.sync();
    if (blockIdx.x == 0) cg::memcpy_async(block, tile, x, sizeof(tile));
    else cg::memcpy_async(block, tile, 256, x + blockIdx.x * 256, 256);
    if (early) cg::wait_prior<1>(block);
    else cg::wait(block);
    y[blockIdx.x * 256 + threadIdx.x] = tile[255 - threadIdx.x];
    block.sync();  // a thread must not end before its copies have
}

__global__ void grid_sync(int* x, int rounds) {
    const cg::grid_group grid = cg::this_grid();
    const int i = static_cast<int>(grid.thread_rank()), n = static_cast<int>(grid.size());
    for (int round = 0; round < rounds; round++) {
        const int next = x[(i + 1) % n];
        grid.sync();
        x[i] = next;
        grid.sync();
    }
}

__global__ void tile_waits_for_an_exited_lane(int* result) {
    const auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    if (threadIdx.x == 11) return;
    result[threadIdx.x] = tile.shfl(int(threadIdx.x), 0);  // MARK shuffle in a tile
}
__global__ void half_a_reduction(int* result) {
    const auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    if (threadIdx.x >= 8) return;
    result[threadIdx.x] = cg::reduce(tile, 1, cg::plus<int>());  // MARK reduction of half a tile
}

// ---- atomics
__global__ void references(int* integers, float* sum, double* precise, unsigned long long* wide) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const auto at = [&](int k) { return cuda::atomic_ref<int, cuda::thread_scope_device>(integers[k]); };
    at(0).fetch_add(1, cuda::memory_order_relaxed);
    at(1).fetch_max(i);
    at(2).fetch_min(-i, cuda::std::memory_order_acq_rel);
    at(3) |= 1 << i % 31;
    at(4).fetch_xor(i);
    at(5).fetch_and(~(1 << i % 31));
    at(6)--;
    int seen = at(7).load(cuda::memory_order_relaxed);
    while (!at(7).compare_exchange_weak(seen, seen + 2, cuda::memory_order_release, cuda::memory_order_relaxed)) {
    }
    cuda::atomic_ref<float, cuda::thread_scope_device>(*sum).fetch_add(1.0f);
    cuda::std::atomic_ref<double>(*precise) += 0.5;
    cuda::atomic_ref<unsigned long long, cuda::thread_scope_system>(*wide).fetch_add(1ull << 33);
}

// A block passes a value from thread to thread through a flag, beginning with the last thread.
__global__ void relay(int* result) {
    __shared__ cuda::atomic<int, cuda::thread_scope_block> turn;
    __shared__ int value;
    if (threadIdx.x == 0) {
        turn = int(blockDim.x) - 1;
        value = 0;
    }
    __syncthreads();
    while (turn.load(cuda::memory_order_acquire) != int(threadIdx.x)) {
    }
    result[threadIdx.x] = value++;
    cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_block);
    turn.store(int(threadIdx.x) - 1, cuda::memory_order_release);
}

__global__ void locks(int* counter, int* lock) {
    cuda::atomic_ref<int, cuda::thread_scope_device> mutex(*lock);
    while (mutex.exchange(1, cuda::memory_order_acquire) != 0) {
    }
    __nanosleep(100);  // lets the others run into the lock
    (*counter)++;
    mutex.store(0, cuda::memory_order_release);
}

// Atomics on types other than int: 2, 8 and 16 bytes, and vectors.
__global__ void widths(unsigned short* narrow, unsigned long long* wide, long long* lowest, ulonglong2* widest,
                       float2* pair, float4* quad) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned short seen = 0;
    for (unsigned short before; (before = atomicCAS(narrow, seen, (unsigned short)(seen + 1))) != seen;) seen = before;
    atomicMax(wide, 1ull << 40 | unsigned(i));
    atomicMin(lowest, -(1ll << 40) - i);
    atomicAdd(pair, make_float2(1, 2));
    atomicAdd(quad, make_float4(1, 2, 3, 4));
    for (ulonglong2 old = *widest;;) {
        const ulonglong2 next = make_ulonglong2(old.x + 1, old.y - 1);
        const ulonglong2 before = atomicCAS(widest, old, next);
        if (before.x == old.x && before.y == old.y) break;
        old = before;
    }
    __threadfence_block();
    __threadfence();
    __threadfence_system();
}

#ifdef TKJIT_SIM
EXPORT void set_workers(int workers) { tkjit::sim::set_workers(workers); }

#define LAUNCHER(name, kernel, parameters, ...)                                                             \
    EXPORT const char* name(const unsigned* dims, size_t dynamic_shared_bytes, parameters) {                \
        return tkjit::sim::launch(kernel, dim3(dims[0], dims[1], dims[2]), dim3(dims[3], dims[4], dims[5]), \
                                  dynamic_shared_bytes __VA_OPT__(, ) __VA_ARGS__);                         \
    }
#define LIST(...) __VA_ARGS__
LAUNCHER(run_block_and_grid, block_and_grid, LIST(int* result), result)
LAUNCHER(run_tiles_1, tiles<1>, LIST(int* x, int* result), x, result)
LAUNCHER(run_tiles_4, tiles<4>, LIST(int* x, int* result), x, result)
LAUNCHER(run_tiles_32, tiles<32>, LIST(int* x, int* result), x, result)
LAUNCHER(run_tile_of_a_tile, tile_of_a_tile, LIST(int* result), result)
LAUNCHER(run_coalesced, coalesced, LIST(int* x, int* result), x, result)
LAUNCHER(run_staged_copy, staged_copy, LIST(int* x, int* y, int early), x, y, early)
LAUNCHER(run_grid_sync_without_cooperative, grid_sync, LIST(int* x, int rounds), x, rounds)
LAUNCHER(run_tile_waits_for_an_exited_lane, tile_waits_for_an_exited_lane, LIST(int* result), result)
LAUNCHER(run_half_a_reduction, half_a_reduction, LIST(int* result), result)
LAUNCHER(run_references, references, LIST(int* integers, float* sum, double* precise, unsigned long long* wide),
         integers, sum, precise, wide)
LAUNCHER(run_relay, relay, LIST(int* result), result)
LAUNCHER(run_locks, locks, LIST(int* counter, int* lock), counter, lock)
LAUNCHER(run_widths, widths,
         LIST(unsigned short* narrow, unsigned long long* wide, long long* lowest, ulonglong2* widest, float2* pair,
              float4* quad),
         narrow, wide, lowest, widest, pair, quad)

EXPORT const char* run_grid_sync(const unsigned* dims, size_t, int* x, int rounds) {
    return tkjit::sim::launch_with(true, grid_sync, dim3(dims[0]), dim3(dims[3]), 0, x, rounds);
}
#endif
