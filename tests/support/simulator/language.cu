// Kernels for the tests of the simulator's language: grids, shared memory, barriers, warps, atomics, faults. The
// launchers at the end do what a rendered launcher would.
#include <assert.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <tkjit/mbarrier.cuh>
#include <tkjit/shared_memory.cuh>

#define EXPORT extern "C" __attribute__((visibility("default")))

// ---- grids and indices
__global__ void record_indices(uint4* seen) {
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
    seen[block * threads + thread] = make_uint4(block, threadIdx.x, threadIdx.y, threadIdx.z);
}

template <typename T, int scale>
__global__ void __launch_bounds__(256, 2) scaled_sum(const T* __restrict__ x, T* __restrict__ y, T bias, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
#pragma unroll 4
    for (int repeat = 0; repeat < scale; repeat++) y[i] += __ldg(&x[i]);
    y[i] += bias;
}

struct Globals {
    const float* x;
    float* y;
    int n;
    float padding[100];
};
__global__ void by_struct(const __grid_constant__ Globals g) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < g.n; i += gridDim.x * blockDim.x) g.y[i] = -g.x[i];
}

// ---- shared memory and barriers
__global__ void reverse_static(const int* x, int* y) {
    __shared__ int tile[256];
    tile[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
    __syncthreads();
    y[blockIdx.x * 256 + threadIdx.x] = tile[255 - threadIdx.x];
}

__global__ void reverse_dynamic(const int* x, int* y, int* misaligned) {
    TKJIT_DYNAMIC_SHARED(int, tile);
    if (reinterpret_cast<uintptr_t>(tile) % 1024 || tkjit::shared_address(tile) % 1024) *misaligned = 1;
    tile[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    y[blockIdx.x * blockDim.x + threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

// Uses more shared memory than fits in a process's static TLS, and a large array in local memory.
__global__ void large_static(int* x) {
    __shared__ int tile[50 * 1024];
    int local[4096];
    for (int i = 0; i < 4096; i++) local[i] = i ^ threadIdx.x;
    for (int i = threadIdx.x; i < 50 * 1024; i += blockDim.x) tile[i] = i + local[i % 4096];
    __syncthreads();
    x[blockIdx.x * blockDim.x + threadIdx.x] = tile[(threadIdx.x * 997) % (50 * 1024)] + local[threadIdx.x];
}

__global__ void barrier_reductions(const int* x, int* count, int* conjunction, int* disjunction) {
    const int i = threadIdx.x;
    count[i] = __syncthreads_count(x[i]);
    conjunction[i] = __syncthreads_and(x[i]);
    disjunction[i] = __syncthreads_or(x[i]);
}

// Every second thread leaves before each barrier; those that stay must still be in step.
__global__ void early_exit(int* rounds) {
    __shared__ int arrived;
    if (threadIdx.x == 0) arrived = 0;
    __syncthreads();
    for (unsigned stride = 1; stride < blockDim.x; stride *= 2) {
        if (threadIdx.x % (2 * stride) != 0) return;
        atomicAdd(&arrived, 1);
        __syncthreads();
        if (threadIdx.x == 0) *rounds++ = arrived;
        __syncthreads();
    }
}

// Two halves of the block hand a value back and forth through named barriers.
__global__ void ping_pong(int* log) {
    __shared__ int ball;
    const bool first_half = threadIdx.x < 32;
    if (threadIdx.x == 0) ball = 0;
    __syncthreads();
    for (int round = 0; round < 10; round++) {
        if (first_half) {
            if (threadIdx.x == 0) ball++;
            tkjit::sim::named_barrier_arrive(1, 64);
            tkjit::sim::named_barrier_sync(2, 64);
        } else {
            tkjit::sim::named_barrier_sync(1, 64);
            if (threadIdx.x == 32) log[round] = ball;
            tkjit::sim::named_barrier_arrive(2, 64);
        }
    }
}

// ---- a softmax of rows, through warp shuffles and shared memory
template <class Combine>
__device__ __forceinline__ float block_reduce(float value, Combine combine, float identity) {
    __shared__ float partial[32];
    for (int offset = 16; offset; offset >>= 1) value = combine(value, __shfl_xor_sync(0xffffffffu, value, offset));
    const int warp = threadIdx.x / warpSize, lane = threadIdx.x % warpSize;
    if (lane == 0) partial[warp] = value;
    __syncthreads();
    value = lane < static_cast<int>(blockDim.x) / warpSize ? partial[lane] : identity;
    for (int offset = 16; offset; offset >>= 1) value = combine(value, __shfl_xor_sync(0xffffffffu, value, offset));
    __syncthreads();
    return value;
}

__global__ void softmax(const float* x, float* y, int columns) {
    const float* row = x + static_cast<size_t>(blockIdx.x) * columns;
    float* result = y + static_cast<size_t>(blockIdx.x) * columns;
    float largest = -INFINITY, sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) largest = max(largest, row[i]);
    largest = block_reduce(largest, [](float a, float b) { return fmaxf(a, b); }, -INFINITY);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += __expf(row[i] - largest);
    sum = block_reduce(sum, [](float a, float b) { return a + b; }, 0.0f);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) result[i] = __fdividef(__expf(row[i] - largest), sum);
}

// ---- warp operations; one row of `result` for each
template <class T>
__global__ void shuffles(const T* x, T* result, int amount, int width) {
    const int lane = threadIdx.x;
    const T value = x[lane];
    result[lane] = __shfl_sync(~0u, value, amount, width);
    result[32 + lane] = __shfl_up_sync(~0u, value, amount, width);
    result[64 + lane] = __shfl_down_sync(~0u, value, amount, width);
    result[96 + lane] = __shfl_xor_sync(~0u, value, amount, width);
}

// The two branches of a divergent warp each exchange among themselves, a different number of times.
__global__ void divergent_shuffles(int* result) {
    const int lane = threadIdx.x;
    int value = lane;
    if (lane % 3 == 0) {
        for (int i = 0; i < 3; i++) value = __shfl_sync(0x49249249u, value, (lane + 3) % 33);
    } else {
        const unsigned others = ~0x49249249u;
        value = 100 * __popc(__ballot_sync(others, lane < 16)) + __reduce_add_sync(others, 1);
    }
    __syncwarp();
    result[lane] = value;
}

// Each warp operation by its number, called with lane + 1; expected_of has the result for a lane of a mask.
constexpr int warp_operations = 16;
__device__ int warp_operation(int number, unsigned mask, int lane) {
    const int value = lane + 1;
    int all_equal = 0;
    switch (number) {
        case 0: __syncwarp(mask); return 0;
        case 1: return __shfl_sync(mask, value, lane ^ 2);
        case 2: return __shfl_up_sync(mask, value, 2);
        case 3: return __shfl_down_sync(mask, value, 2);
        case 4: return __shfl_xor_sync(mask, value, 4);
        case 5: return __ballot_sync(mask, value > 7);
        case 6: return __any_sync(mask, value > 31);
        case 7: return __all_sync(mask, value < 32);
        case 8: return __match_any_sync(mask, value / 4);
        case 9: return __match_all_sync(mask, value / 64, &all_equal) + all_equal;
        case 10: return __reduce_add_sync(mask, value);
        case 11: return __reduce_min_sync(mask, value);
        case 12: return __reduce_max_sync(mask, value);
        case 13: return __reduce_and_sync(mask, unsigned(value));
        case 14: return __reduce_or_sync(mask, unsigned(value));
        default: return __reduce_xor_sync(mask, unsigned(value));
    }
}
__device__ int expected_of(int number, unsigned mask, int lane) {
    const auto value_of = [&](int source) { return source >= 0 && source < 32 && mask >> source & 1 ? source + 1 : lane + 1; };
    int ballot = 0, matches = 0, sum = 0, smallest = 99, largest = 0, conjunction = ~0, disjunction = 0, parity = 0;
    for (int other = 0; other < 32; other++) {
        if (!(mask >> other & 1)) continue;
        const int value = other + 1;
        ballot |= (value > 7) << other;
        matches |= (value / 4 == (lane + 1) / 4) << other;
        sum += value, smallest = min(smallest, value), largest = max(largest, value);
        conjunction &= value, disjunction |= value, parity ^= value;
    }
    const int all[] = {0, value_of(lane ^ 2), value_of(lane - 2), value_of(lane + 2), value_of(lane ^ 4), ballot,
                       largest > 31, largest < 32, matches, int(mask) + 1, sum, smallest, largest, conjunction,
                       disjunction, parity};
    return all[number];
}

// Half of the lanes run one operation while the others run another one, with a mask of all lanes or of their half.
__global__ void overlapping_masks(int parity, int* wrong) {
    const int lane = threadIdx.x;
    const unsigned even = 0x55555555u;
    for (int first = 0; first < warp_operations; first++) {
        for (int second = 0; second < warp_operations; second++) {
            const auto run = [&](int number, unsigned mask) {
                if (warp_operation(number, mask, lane) != expected_of(number, mask, lane)) {
                    atomicAdd(&wrong[first * warp_operations + second], 1);
                }
            };
            // first half of the lanes, then all; the other half already waits in the second operation
            if (lane % 2 == parity) run(first, even << parity);
            run(second, ~0u);
            // each half separately
            lane % 2 == parity ? run(first, even << parity) : run(second, even << !parity);
            // half of one half, then that half, then all lanes
            if (lane % 2 == parity) {
                if (lane % 4 < 2) run(first, 0x11111111u << parity);
                run(second, even << parity);
            }
            run(first, ~0u);
        }
    }
}

// Every fourth lane exits before the others name it in a mask, or while they already wait.
__global__ void masks_with_exited_lanes(int before, int* wrong) {
    const int lane = threadIdx.x;
    if (lane % 4 == 3) return;
    if (before) __syncthreads();
    for (int number = 0; number < warp_operations; number++) {
        if (number >= 1 && number <= 3) continue;  // these operations read lanes that have exited
        if (warp_operation(number, ~0u, lane) != expected_of(number, 0x77777777u, lane)) atomicAdd(&wrong[number], 1);
    }
}

__global__ void votes(const int* x, unsigned* result) {
    const int lane = threadIdx.x % 32;
    const int value = x[threadIdx.x];
    result[0 * blockDim.x + threadIdx.x] = __ballot_sync(~0u, value > 3);
    result[1 * blockDim.x + threadIdx.x] = __any_sync(~0u, value == 5);
    result[2 * blockDim.x + threadIdx.x] = __all_sync(~0u, value < 10);
    result[3 * blockDim.x + threadIdx.x] = __match_any_sync(~0u, value);
    int all_equal;
    result[4 * blockDim.x + threadIdx.x] = __match_all_sync(~0u, value / 100, &all_equal) + (all_equal ? 0 : 1);
    result[5 * blockDim.x + threadIdx.x] = __activemask();
    result[6 * blockDim.x + threadIdx.x] = __reduce_max_sync(~0u, value - 4);
    result[7 * blockDim.x + threadIdx.x] = __reduce_xor_sync(~0u, static_cast<unsigned>(value) << lane % 8);
}

// Converged lanes get a mask of each other, which the aggregated atomic in CUDA's documentation relies on.
__global__ void active_masks(unsigned* masks, int* counter) {
    const int lane = threadIdx.x % 32;
    masks[threadIdx.x] = __activemask();
    if (lane % 4 == 1) {
        const unsigned mask = __activemask();
        masks[64 + threadIdx.x] = mask;
        const int leader = __ffs(mask) - 1;
        int ticket = 0;
        if (lane == leader) ticket = atomicAdd(counter, __popc(mask));
        ticket = __shfl_sync(mask, ticket, leader) + __popc(mask & ((1u << lane) - 1));
        masks[128 + threadIdx.x] = ticket;
    } else if (lane % 4 == 2) {
        masks[64 + threadIdx.x] = __activemask();
    }
}

// Thread 0 waits for a flag that the last thread sets, and holds a lock across a barrier of half the block.
__global__ void spinning(int* flag, int* lock, int* order) {
    if (threadIdx.x == 0) {
        while (atomicAdd(flag, 0) == 0) {
        }
        order[0] = 1;
    }
    if (threadIdx.x == blockDim.x - 1) atomicExch(flag, 1);
    if (threadIdx.x % 32 == 0) {
        while (atomicCAS(lock, 0, 1) != 0) {
        }
        __nanosleep(100);  // lets the others run into the lock
        order[1]++;
        atomicExch(lock, 0);
    }
}

// ---- atomics over many blocks
__global__ void atomics(int* integers, float* sum, unsigned long long* wide, __half2* pair, double* precise) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&integers[0], 1);
    atomicMax(&integers[1], i);
    atomicMin(&integers[2], -i);
    atomicOr(&integers[3], 1 << i % 31);
    atomicXor(&integers[4], i);
    atomicInc(reinterpret_cast<unsigned*>(&integers[5]), 6);
    atomicSub(&integers[6], 2);
    while (true) {  // take a lock for a moment
        if (atomicCAS(&integers[7], 0, 1) == 0) break;
    }
    integers[8]++;
    atomicExch(&integers[7], 0);
    atomicAdd(sum, 1);
    atomicAdd(wide, 1ull << 33);
    atomicAdd(precise, 0.5);
    if (i < 1000) atomicAdd(pair, __floats2half2_rn(1.0f, -1.0f));
}

// ---- faults; the tests find these lines by their marks
__global__ void deadlock(int* x) {
    if (threadIdx.x < 32) {
        __syncthreads();  // MARK barrier of the first warp
    } else {
        tkjit::sim::named_barrier_sync(3, 96);  // MARK named barrier of the others
    }
    x[threadIdx.x] = 1;
}
__global__ void divergent_barriers() {
    if (threadIdx.x < 7) {
        __syncthreads();
    } else {
        __syncthreads_or(1);  // MARK the other barrier
    }
}
#define EITHER_WAY(condition) if (condition) { __syncthreads(); } else { __syncthreads(); }
#define COUNTED() (__syncthreads_count(1) + __syncthreads_and(1))
__global__ void barriers_on_one_line(int how) {
    if (how == 0) { if (threadIdx.x < 7) __syncthreads(); else __syncthreads(); }  // MARK barriers in code
    if (how == 1) { EITHER_WAY(threadIdx.x < 7) }  // MARK barriers of a macro
    if (how == 2) threadIdx.x < 7 ? __syncthreads_or(1) : __syncthreads_or(1);  // MARK barriers with a predicate
    for (int i = 0; i < 3; i++) { __syncthreads(); __syncthreads(); (__syncthreads)(); }
    if (threadIdx.x < 32) { EITHER_WAY(how == 3) } else { EITHER_WAY(how == 3) }
    assert(COUNTED() == 65);
}
__global__ void mask_omits_caller() {
    __shfl_sync(0x0000ffffu, 1, 0);  // MARK half a mask
}
__global__ void mask_names_exited(int exiting_lane) {
    if (static_cast<int>(threadIdx.x) == exiting_lane) return;
    __shfl_sync(~0u, 1, exiting_lane);  // MARK shuffle from an exited lane
}
__global__ void mixed_operations() {
    if (threadIdx.x < 16) {
        __ballot_sync(~0u, 1);
    } else {
        __shfl_xor_sync(~0u, 1, 1);  // MARK shuffle meets ballot
    }
}
__global__ void failing_assert(int n) {
    __syncthreads();
    assert(int(blockIdx.x * blockDim.x + threadIdx.x) != n);  // MARK the assertion
    __syncthreads();
}
__global__ void trapping() {
    if (blockIdx.y == 2 && threadIdx.x == 3) __trap();  // MARK the trap
    __syncthreads();
}
__global__ void polls_forever() {
    __shared__ uint64_t never;
    if (threadIdx.x == 0) {
        tkjit::mbarrier_init(&never, 1);
        tkjit::mbarrier_wait(&never, 0);  // MARK the poll
    }
    __syncthreads();
}
__global__ void barriers(int* x, int rounds) {
    for (int i = 0; i < rounds; i++) __syncthreads();
    x[blockIdx.x * blockDim.x + threadIdx.x]++;
}

// ---- launchers
EXPORT void set_workers(int workers) { tkjit::sim::set_workers(workers); }

// All arguments of the kernels are pointers and integers, which ctypes can pass.
#define LAUNCHER(name, kernel, parameters, ...)                                                             \
    EXPORT const char* name(const unsigned* dims, size_t dynamic_shared_bytes, parameters) {                \
        return tkjit::sim::launch(kernel, dim3(dims[0], dims[1], dims[2]), dim3(dims[3], dims[4], dims[5]), \
                                  dynamic_shared_bytes __VA_OPT__(, ) __VA_ARGS__);                         \
    }
#define LIST(...) __VA_ARGS__
LAUNCHER(run_record_indices, record_indices, LIST(uint4* seen), seen)
LAUNCHER(run_scaled_sum, (scaled_sum<float, 3>), LIST(float* x, float* y, int n), x, y, 1, n)
LAUNCHER(run_by_struct, by_struct, LIST(float* x, float* y, int n), Globals{x, y, n, {}})
LAUNCHER(run_reverse_static, reverse_static, LIST(int* x, int* y), x, y)
LAUNCHER(run_reverse_dynamic, reverse_dynamic, LIST(int* x, int* y, int* misaligned), x, y, misaligned)
LAUNCHER(run_barrier_reductions, barrier_reductions, LIST(int* x, int* a, int* b, int* c), x, a, b, c)
LAUNCHER(run_early_exit, early_exit, LIST(int* rounds), rounds)
LAUNCHER(run_ping_pong, ping_pong, LIST(int* log), log)
LAUNCHER(run_softmax, softmax, LIST(float* x, float* y, int columns), x, y, columns)
LAUNCHER(run_shuffles_float, shuffles<float>, LIST(float* x, float* y, int amount, int width), x, y, amount, width)
LAUNCHER(run_shuffles_double, shuffles<double>, LIST(double* x, double* y, int amount, int width), x, y, amount, width)
LAUNCHER(run_shuffles_bfloat16, shuffles<__nv_bfloat16>,
         LIST(__nv_bfloat16* x, __nv_bfloat16* y, int amount, int width), x, y, amount, width)
LAUNCHER(run_divergent_shuffles, divergent_shuffles, LIST(int* result), result)
LAUNCHER(run_overlapping_masks, overlapping_masks, LIST(int parity, int* wrong), parity, wrong)
LAUNCHER(run_masks_with_exited_lanes, masks_with_exited_lanes, LIST(int before, int* wrong), before, wrong)
LAUNCHER(run_votes, votes, LIST(int* x, unsigned* result), x, result)
LAUNCHER(run_active_masks, active_masks, LIST(unsigned* masks, int* counter), masks, counter)
LAUNCHER(run_spinning, spinning, LIST(int* flag, int* lock, int* order), flag, lock, order)
LAUNCHER(run_large_static, large_static, LIST(int* x), x)
LAUNCHER(run_atomics, atomics,
         LIST(int* integers, float* sum, unsigned long long* wide, __half2* pair, double* precise), integers, sum, wide,
         pair, precise)
LAUNCHER(run_deadlock, deadlock, LIST(int* x), x)
LAUNCHER(run_divergent_barriers, divergent_barriers, LIST(void*))
LAUNCHER(run_barriers_on_one_line, barriers_on_one_line, LIST(int how), how)
LAUNCHER(run_mask_omits_caller, mask_omits_caller, LIST(void*))
LAUNCHER(run_mask_names_exited, mask_names_exited, LIST(int exiting_lane), exiting_lane)
LAUNCHER(run_mixed_operations, mixed_operations, LIST(void*))
LAUNCHER(run_failing_assert, failing_assert, LIST(int n), n)
LAUNCHER(run_trapping, trapping, LIST(void*))
LAUNCHER(run_polls_forever, polls_forever, LIST(void*))
LAUNCHER(run_barriers, barriers, LIST(int* x, int rounds), x, rounds)
