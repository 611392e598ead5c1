// More patterns, which were labelled before the checker first ran on them. `// race` and `// copy` are found, and
// `// missed` is one side of a race that the checker is known to miss.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <tkjit/cp_async.cuh>
#include <tkjit/shared_memory.cuh>

#define TID static_cast<int>(threadIdx.x)
#define ALL static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x)

__device__ unsigned tickets;
__device__ int locks[2];
__device__ int published;
__device__ int early;

// ---- loops with dependences between iterations

__device__ void antidependence(float* y) {
    if (ALL < 63) y[ALL] = y[ALL + 1];  // race
}

__device__ void indirect_store(float* y, const float* x, const int* index) {
    y[index[TID]] = x[TID];  // race
}

__device__ void indirect_store_without_duplicates(float* y, const float* x) {
    if (blockIdx.x == 0) y[(TID * 37) % 64] = x[TID];
}

__device__ void shared_variable_that_should_be_private(const float* x, float* y) {
    __shared__ float swap;
    swap = x[TID];                    // race
    if (blockIdx.x == 0) y[TID] = swap;  // race
}

__device__ void plain_sum(float* total, const float* x) {
    *total = *total + x[TID];  // race
}

__device__ void ranges_that_overlap(float* y) {
    const int begin = TID * 3, end = begin + 4;
    if (blockIdx.x == 0 && TID < 20)
        for (int i = begin; i < end; ++i) y[i] = 1;  // race
}

__device__ void adjacent_ranges(float* y) {
    const int begin = TID * 3, end = begin + 3;
    if (blockIdx.x == 0 && TID < 20)
        for (int i = begin; i < end; ++i) y[i] = 1;
}

// ---- missing barriers

__device__ void syncwarp_between_warps(const float* x, float* y) {
    __shared__ float tile[64];
    tile[TID] = x[TID];                              // race
    __syncwarp();
    if (blockIdx.x == 0) y[TID] = tile[63 - TID];    // race
}

__device__ void syncwarp_within_a_warp(const float* x, float* y) {
    __shared__ float tile[64];
    tile[TID] = x[TID];
    __syncwarp();
    if (blockIdx.x == 0) y[TID] = tile[TID ^ 31];
}

__device__ void shuffle_as_a_barrier(const float* x, float* y) {
    __shared__ float tile[64];
    tile[TID] = x[TID];                              // race
    const float other = __shfl_sync(~0u, x[TID], 0);
    if (blockIdx.x == 0) y[TID] = tile[TID ^ 1] + other;  // race
}

__device__ void barrier_before_the_write(const float* x, float* y) {
    __shared__ float tile[64];
    __syncthreads();
    tile[TID] = x[TID];                              // race
    if (blockIdx.x == 0) y[TID] = tile[63 - TID];    // race
}

__device__ void barrier_in_every_other_iteration(const float* x) {
    __shared__ float tile[65];
    for (int turn = 0; turn < 4; ++turn) {
        if (turn % 2) __syncthreads();
        tile[TID + turn % 2] = x[TID];  // race
    }
}

// ---- atomics, fences, locks

__device__ void two_locks_for_one_counter(int* number) {
    if (TID != 0) return;
    int& lock = locks[blockIdx.x];
    while (atomicCAS(&lock, 0, 1) != 0) {}
    __threadfence();
    *number += 1;  // race
    __threadfence();
    atomicExch(&lock, 0);
}

__device__ void fence_before_the_write(float* y) {
    if (TID != 0) return;
    if (blockIdx.x == 0) {
        __threadfence();
        y[0] = 1;                       // race
        atomicExch(&early, 1);
    } else if (atomicAdd(&early, 0)) {
        y[1] = y[0];                    // race
    }
}

__device__ void last_block_without_a_barrier(float* y) {
    __shared__ bool is_last;
    y[ALL % 64] = 1;                                       // race
    __threadfence();
    if (TID == 0) is_last = atomicAdd(&tickets, 1u) == 1;  // race
    if (is_last && TID < 8) y[40 + TID] = y[TID];          // race
}

__device__ void compare_and_swap_from_a_plain_read(int* number) {
    int old = *number;  // race
    int seen;
    while ((seen = atomicCAS(number, old, old + 1)) != old) old = seen;  // race
}

__device__ void atomic_with_block_scope(int* number) {
    atomicAdd_block(number, 1);  // race
}

__device__ void no_fence_after_the_read(float* y) {
    if (TID != 0) return;
    if (blockIdx.x == 0) {
        y[0] = 1;                       // missed
        __threadfence();
        atomicExch(&published, 1);
    } else if (atomicAdd(&published, 0)) {
        y[1] = y[0];                    // missed
    }
}

// ---- parts of words, and copies

__device__ void pair_and_its_half() {
    __shared__ __half2 pairs[32];
    if (TID < 32) pairs[TID] = __half2half2(__float2half(1.f));        // race
    else reinterpret_cast<__half*>(pairs)[2 * (TID - 32)] = __float2half(2.f);  // race
}

__device__ void halves_of_pairs() {
    __shared__ __half2 pairs[32];
    reinterpret_cast<__half*>(pairs)[TID] = __float2half(2.f);
}

__device__ void arrays_that_overlap_in_dynamic_memory() {
    TKJIT_DYNAMIC_SHARED(float, all);
    float* const first = all;
    float* const second = all + 63;  // one too few
    first[TID] = 1;   // race
    second[TID] = 2;  // race
}

__device__ void copy_without_a_wait(const float* x) {
    __shared__ __align__(16) float tile[64];
    __shared__ float seen[64];
    if (TID < 16) tkjit::cp_async_16(&tile[4 * TID], &x[4 * TID]);  // copy
    tkjit::cp_async_commit();
    if (TID < 16) seen[TID] = tile[4 * TID];  // copy
    tkjit::cp_async_wait<0>();
}

__device__ void copy_that_only_its_thread_waits_for(const float* x) {
    __shared__ __align__(16) float tile[64];
    __shared__ float seen[64];
    if (TID < 16) tkjit::cp_async_16(&tile[4 * TID], &x[4 * TID]);  // race
    tkjit::cp_async_commit();
    tkjit::cp_async_wait<0>();
    seen[TID] = tile[63 - TID];  // race
}

__global__ void more(Globals g) {
    const float* const x = g.x.raw_ptr;
    int row = 0, line = 0;
    antidependence(&g.y(row++, 0));
    indirect_store(&g.y(row++, 0), x, g.index.raw_ptr);
    indirect_store_without_duplicates(&g.y(row++, 0), x);
    shared_variable_that_should_be_private(x, &g.y(row++, 0));
    plain_sum(&g.y(row++, 0), x);
    ranges_that_overlap(&g.y(row++, 0));
    adjacent_ranges(&g.y(row++, 0));
    syncwarp_between_warps(x, &g.y(row++, 0));
    syncwarp_within_a_warp(x, &g.y(row++, 0));
    shuffle_as_a_barrier(x, &g.y(row++, 0));
    barrier_before_the_write(x, &g.y(row++, 0));
    barrier_in_every_other_iteration(x);
    two_locks_for_one_counter(&g.n(line++, 0));
    fence_before_the_write(&g.y(row++, 0));
    last_block_without_a_barrier(&g.y(row++, 0));
    compare_and_swap_from_a_plain_read(&g.n(line++, 0));
    atomic_with_block_scope(&g.n(line++, 0));
    no_fence_after_the_read(&g.y(row++, 0));
    pair_and_its_half();
    halves_of_pairs();
    arrays_that_overlap_in_dynamic_memory();
    copy_without_a_wait(x);
    copy_that_only_its_thread_waits_for(x);
}
