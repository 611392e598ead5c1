// Prefix sums of rows in one pass. A block scans a tile of a row, and adds the sum of all tiles before it. It finds that by
// looking back: the blocks before it have published either the sum of their own tile, or that of all tiles up to theirs.
//
// Source: Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", 2016.
#include <tkjit/gl.h>
#include <tkjit/row.cuh>

#include <type_traits>

constexpr unsigned kAll = 0xffffffff;
constexpr int kGroups = 4, kMostWarps = 8;  // of a thread, and of a block

/// The sum that a tile has published. It shares a 64-bit word with its kind, so that both are read at once.
enum Kind { empty, tile_sum, prefix };
struct alignas(8) State {
    Kind kind;
    uint32_t bits;  // of the sum
};
using Word = unsigned long long;

template <class Sum>
__device__ void publish(Word* place, Kind kind, Sum sum) {
    const State state{kind, reinterpret_cast<const uint32_t&>(sum)};
    atomicExch(place, reinterpret_cast<const Word&>(state));
}

__device__ State read(Word* place) {
    const Word word = atomicAdd(place, 0ull);
    return reinterpret_cast<const State&>(word);
}

/// The sum of all tiles before this one in a row, whose states are `row`. A warp looks at 32 of them at once.
template <class Sum>
__device__ Sum sum_before(Word* row, int tile) {
    const int lane = threadIdx.x % 32;
    Sum total = 0;
    for (int at = tile - 1 - lane;; at -= 32) {
        State state{prefix, 0};  // before the row's first tile
        if (at >= 0) do state = read(row + at); while (state.kind == empty);
        const unsigned prefixes = __ballot_sync(kAll, state.kind == prefix);
        const bool counts = !prefixes || lane < __ffs(prefixes);  // up to the nearest prefix
        const Sum sum = tkjit::warp_scan(counts ? reinterpret_cast<const Sum&>(state.bits) : Sum(0));
        total += __shfl_sync(kAll, sum, 31);
        if (prefixes) return total;
    }
}

template <typename T>
__global__ void __launch_bounds__(32 * kMostWarps) scan(const __grid_constant__ Globals g) {
    using Sum = std::conditional_t<std::is_integral_v<T>, unsigned, float>;
    constexpr int size = tkjit::Group<T>::size;
    __shared__ Sum of_warp[kGroups][kMostWarps];
    __shared__ Sum of_tiles_before;
    __shared__ unsigned number;
    const int n = g.x.cols(), tiles = g.tiles, warp = threadIdx.x / 32, warps = blockDim.x / 32, lane = threadIdx.x % 32;

    // tiles are numbered in the order in which blocks begin, so that each block waits only for blocks that run already
    Word* const states = reinterpret_cast<Word*>(g.states.raw_ptr);
    if (tiles > 1) {
        if (threadIdx.x == 0) number = unsigned(atomicAdd(&states[0], 1ull));
        __syncthreads();
    }
    const unsigned own_number = tiles > 1 ? number : blockIdx.x, row = own_number / tiles, tile = own_number % tiles;
    const unsigned first = (tile * kGroups * blockDim.x + threadIdx.x) * size, step = blockDim.x * size;

    tkjit::Group<T> groups[kGroups];
#pragma unroll
    for (int k = 0; k < kGroups; ++k)
        if (first + k * step < n) groups[k] = tkjit::load_group(g.x.raw_ptr + size_t(row) * n, int(first + k * step), n);
    Sum sums[kGroups][size], before[kGroups];
#pragma unroll
    for (int k = 0; k < kGroups; ++k) {
        Sum sum = 0;
#pragma unroll
        for (int i = 0; i < size; ++i) sums[k][i] = sum += first + k * step + i < n ? Sum(groups[k].element[i]) : Sum(0);
        const Sum in_warp = tkjit::warp_scan(sum);
        if (lane == 31) of_warp[k][warp] = in_warp;
        before[k] = __shfl_up_sync(kAll, in_warp, 1);
        if (lane == 0) before[k] = 0;
    }
    __syncthreads();
    Sum of_tile = 0;
#pragma unroll
    for (int k = 0; k < kGroups; ++k)
        for (int i = 0; i < warps; ++i) {
            if (i == warp) before[k] += of_tile;
            of_tile += of_warp[k][i];
        }
    Sum of_others = 0;
    if (tiles > 1) {
        Word* const row_states = states + 1 + size_t(row) * tiles;
        if (warp == 0) {
            if (lane == 0 && tile > 0) publish(row_states + tile, tile_sum, of_tile);
            const Sum total = tile > 0 ? sum_before<Sum>(row_states, tile) : Sum(0);
            if (lane == 0) {
                publish(row_states + tile, prefix, total + of_tile);
                of_tiles_before = total;
            }
        }
        __syncthreads();
        of_others = of_tiles_before;
    }
#pragma unroll
    for (int k = 0; k < kGroups; ++k) {
#pragma unroll
        for (int i = 0; i < size; ++i) groups[k].element[i] = T(sums[k][i] + before[k] + of_others);
        if (first + k * step < n) tkjit::store_group(g.y.raw_ptr + size_t(row) * n, int(first + k * step), n, groups[k]);
    }
}
