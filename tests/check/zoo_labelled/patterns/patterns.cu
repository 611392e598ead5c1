// Small kernels of the kinds in suites of labelled races: updates of a graph's vertices, reductions, work lists,
// stencils, flags. Two blocks of two warps run all patterns, each in its own memory.
//
// A line that ends with `// race` is one side of a race. `// volatile` is a side of a race with a volatile access, and
// `// constant` is a write to constant memory. No other line may have a finding.
#include <cuda_runtime.h>

#include <algorithm>

struct Flags { unsigned low : 4, high : 12, rest : 16; };
struct Three { float a[3]; };

#define TID static_cast<int>(threadIdx.x)
#define ALL static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x)
#define OTHER ((TID + 33) % 64)

__constant__ float weights[4] = {1, 2, 3, 4};
__constant__ int limit = 3;
__device__ int done_plain;
__device__ unsigned done_fenced;
__device__ alignas(8) int done_pair[2];  // one of them is set after a fence

// ---- graphs

__device__ void maximum_with_a_plain_check_before(int* best, const int* index) {
    if (best[0] < index[TID]) {      // race
        atomicMax(&best[0], index[TID]);  // race
    }
}

__device__ void count_with_a_plain_increment(int* count) {
    count[1]++;  // race
}

__device__ void pull_in_place(float* value, const int* index) {
    const float neighbour = value[OTHER];  // race
    value[TID] = neighbour + 1;            // race
}

__device__ void push_plain_maximum(float* value, const float* x, const int* index) {
    float& mine = value[index[TID] / 2];
    if (mine < x[TID]) mine = x[TID];  // race
}

__device__ void push_atomically(int* value, const int* index) {
    atomicMax(&value[index[TID]], TID);
}

__device__ void work_list_with_a_plain_end(int* list, int* end) {
    const int place = *end;       // race
    *end = place + 1;             // race
    list[place & 63] = TID;       // race
}

__device__ void work_list(int* list, int* end) {
    list[atomicAdd(end, 1) & 127] = TID;
}

__device__ void path_compression(int* parent) {
    int root = TID;
    while (root > 1) {
        const int above = parent[root] & 63;  // race
        parent[root] = above / 2;             // race
        root = above < root ? above : root / 2;
    }
}

// ---- shared memory

__device__ void written_by_all_and_never_read() {
    __shared__ int winner;
    winner = TID;  // race
}

__device__ void written_by_two_and_never_read() {
    __shared__ float tile[64];
    tile[TID / 2] = TID;  // race
}

__device__ void written_by_one_each_and_never_read() {
    __shared__ float tile[64];
    tile[TID] = TID;
}

__device__ void overwritten_by_its_own_thread() {
    __shared__ float tile[65];
    tile[TID + 1] = 1;  // race
    tile[TID] = 2;      // race
}

__device__ void sum_without_a_barrier_in_its_loop(const float* x, float* y) {
    __shared__ float sums[64];
    sums[TID] = x[TID];
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {
        if (TID < half) sums[TID] += sums[TID + half];  // race
    }
    if (TID == 0) y[blockIdx.x] = sums[0];
}

__device__ void sum(const float* x, float* y) {
    __shared__ float sums[64];
    sums[TID] = x[TID];
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {
        if (TID < half) sums[TID] += sums[TID + half];
        __syncthreads();
    }
    if (TID == 0) y[blockIdx.x] = sums[0];
}

__device__ void sum_of_a_warp_without_syncwarp(const float* x, float* y) {
    __shared__ float sums[64];
    sums[TID] = x[TID];
    __syncthreads();
    if (TID < 16) sums[TID] += sums[TID + 16];  // race
    if (TID < 8) sums[TID] += sums[TID + 8];    // race
    if (TID == 0) y[blockIdx.x] = sums[0];
}

__device__ void scratch_reused_without_a_barrier(const float* x, float* y) {
    __shared__ float scratch[64];
    for (int turn = 0; turn < 2; ++turn) {
        scratch[TID] = x[TID];   // race
        __syncthreads();
        y[ALL & 63] += scratch[OTHER] * 0;  // race
    }
}

__device__ void scratch_with_two_halves(const float* x) {
    __shared__ float scratch[2][64];
    __shared__ float seen[64];
    for (int turn = 0; turn < 4; ++turn) {
        scratch[turn % 2][TID] = x[TID];
        __syncthreads();
        seen[TID] = scratch[turn % 2][OTHER];
    }
}

__device__ void unused_read() {
    __shared__ int tile[64];
    tile[TID] = TID;             // race
    const int seen = tile[OTHER];  // race
    (void)seen;
}

// ---- copies, vectors, parts of words

__device__ void odd_copies_that_overlap(const float* x) {
    __shared__ float tile[80];
    memcpy(&tile[TID], x, 12);  // race
}

__device__ void odd_fills_that_overlap() {
    __shared__ char tile[80];
    memset(tile + TID, 0, 5);  // race
}

__device__ void odd_copies_next_to_each_other(const float* x) {
    __shared__ float tile[64 * 3];
    memcpy(&tile[3 * TID], x, 12);
}

__device__ void library_copies_that_overlap(const float* x) {
    __shared__ float tile[80], more[80];
    __builtin_memcpy(&tile[TID], x, 20);    // race
    std::copy(x, x + 5, &more[TID]);        // race
}

__device__ void structs_that_overlap(const float* x) {
    __shared__ float tile[80];
    *reinterpret_cast<Three*>(&tile[TID]) = *reinterpret_cast<const Three*>(x);  // race
}

__device__ void vectors_that_overlap() {
    __shared__ float4 tile[32];
    tile[TID / 2] = make_float4(1, 2, 3, 4);  // race
}

__device__ void halves_of_a_vector() {
    __shared__ float4 tile[32];
    if (TID % 2) tile[TID / 2].x = 1;
    else tile[TID / 2].z = 1;
}

__device__ void bytes_next_to_each_other() {
    __shared__ unsigned char tile[64];
    tile[TID] = 1;
}

__device__ void bits_next_to_each_other() {
    __shared__ Flags flags;
    if (TID == 0) flags.low = 1;   // race
    if (TID == 40) flags.high = 1; // race
}

__device__ void rows_too_long() {
    __shared__ float tile[64][5];
    for (int i = 0; i < 6; ++i) (&tile[0][0])[TID * 5 + i < 320 ? TID * 5 + i : 0] = 1;  // race
}

// ---- blocks

__device__ void store_that_is_overwritten(float* y) {
    y[0] = 1;            // race
    y[0] = 2;            // race
}

__device__ void flag_without_a_fence(float* y) {
    if (blockIdx.x == 0 && TID == 0) {
        y[0] = 1;                        // race
        atomicExch(&done_plain, 1);
    } else if (TID == 0 && atomicAdd(&done_plain, 0)) {
        y[1] = y[0];                     // race
    }
}

__device__ void flag_after_a_fence(float* y) {
    if (blockIdx.x == 0 && TID == 0) {
        y[0] = 1;
        __threadfence();
        atomicExch(&done_fenced, 1u);
    } else if (TID == 0 && atomicAdd(&done_fenced, 0u)) {
        y[1] = y[0];
    }
}

__device__ void flag_next_to_another_flag(float* y) {
    if (blockIdx.x == 0 && TID == 0) {
        y[0] = 1;                        // race
        __threadfence();
        atomicExch(&done_pair[1], 1);
    } else if (TID == 0 && atomicAdd(&done_pair[0], 0) == 0) {
        y[1] = y[0];                     // race
    }
}

__device__ void blocks_that_share_an_edge(float* y) {
    const int first = blockIdx.x * 30;
    if (TID < 32) y[first + TID] = 1;  // race
}

__device__ void plain_and_atomic(int* count) {
    atomicAdd(&count[0], 1);   // race
    if (ALL == 5) count[0] = 0;  // race
}

// ---- volatile

__device__ void volatile_in_place(volatile float* value) {
    const float neighbour = value[OTHER];  // volatile
    value[TID] = neighbour + 1;            // volatile
}

__device__ void volatile_sum_without_syncwarp(const float* x) {
    __shared__ volatile float sums[64];
    sums[TID] = x[TID];
    __syncthreads();
    if (TID < 16) sums[TID] = sums[TID] + sums[TID + 16];  // volatile
    if (TID < 8) sums[TID] = sums[TID] + sums[TID + 8];    // volatile
}

__device__ void volatile_read_of_a_plain_write(int* written) {
    if (TID == 0) written[blockIdx.x] = 1;  // volatile
    if (TID == 40 && *static_cast<volatile int*>(&written[blockIdx.x])) atomicExch(&written[10], 0);  // volatile
}

// ---- constants

__device__ void constant_memory(float* y) {
    if (ALL == 0) weights[1] = 5;              // constant
    if (ALL == 0) *const_cast<int*>(&limit) = 4;  // constant
    if (ALL == 0) y[0] = weights[1] + limit;
}

__global__ void patterns(Globals g) {
    int row = 0, line = 0;
    maximum_with_a_plain_check_before(&g.n(line++, 0), g.index.raw_ptr);
    count_with_a_plain_increment(&g.n(line++, 0));
    pull_in_place(&g.y(row++, 0), g.index.raw_ptr);
    push_plain_maximum(&g.y(row++, 0), g.x.raw_ptr, g.index.raw_ptr);
    push_atomically(&g.n(line++, 0), g.index.raw_ptr);
    work_list_with_a_plain_end(&g.n(line, 0), &g.n(line + 1, 0)), line += 2;
    work_list(&g.n(line, 0), &g.n(line + 2, 0)), line += 3;
    path_compression(&g.n(line++, 0));
    written_by_all_and_never_read();
    written_by_two_and_never_read();
    written_by_one_each_and_never_read();
    overwritten_by_its_own_thread();
    sum_without_a_barrier_in_its_loop(g.x.raw_ptr, &g.y(row++, 0));
    sum(g.x.raw_ptr, &g.y(row++, 0));
    sum_of_a_warp_without_syncwarp(g.x.raw_ptr, &g.y(row++, 0));
    scratch_reused_without_a_barrier(g.x.raw_ptr, &g.y(row++, 0));
    scratch_with_two_halves(g.x.raw_ptr);
    unused_read();
    odd_copies_that_overlap(g.x.raw_ptr);
    odd_fills_that_overlap();
    odd_copies_next_to_each_other(g.x.raw_ptr);
    library_copies_that_overlap(g.x.raw_ptr);
    structs_that_overlap(g.x.raw_ptr);
    vectors_that_overlap();
    halves_of_a_vector();
    bytes_next_to_each_other();
    bits_next_to_each_other();
    rows_too_long();
    store_that_is_overwritten(&g.y(row++, 0));
    flag_without_a_fence(&g.y(row++, 0));
    flag_after_a_fence(&g.y(row++, 0));
    flag_next_to_another_flag(&g.y(row++, 0));
    blocks_that_share_an_edge(&g.y(row, 0)), row += 2;
    plain_and_atomic(&g.n(line++, 0));
    volatile_in_place(&g.y(row++, 0));
    volatile_sum_without_syncwarp(g.x.raw_ptr);
    volatile_read_of_a_plain_write(&g.n(line++, 0));
    constant_memory(&g.y(row++, 0));
}
