// Prefix sums of rows in one pass. A block scans a tile of a row, and adds the sum of all tiles before it. It finds that by
// looking back: the blocks before it have published either the sum of their own tile, or that of all tiles up to theirs.
//
// Source: Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", 2016.
#include <tkjit/gl.h>
#include <tkjit/row.cuh>

#include <type_traits>

constexpr unsigned kAll = 0xffffffff;

/// What a tile has published. It is one 64-bit word, so that the sum is never read without its kind.
enum Kind { nothing, own_sum, whole_sum };
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

template <class Sum>
__device__ Sum scan_warp(Sum sum) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const Sum before = __shfl_up_sync(kAll, sum, distance);
        if (lane >= distance) sum += before;
    }
    return sum;
}

/// The sum of all tiles before this one in a row, whose states are `row`. A warp looks at 32 of them at once.
template <class Sum>
__device__ Sum sum_before(Word* row, int tile) {
    const int lane = threadIdx.x % 32;
    Sum total = 0;
    for (int at = tile - 1 - lane;; at -= 32) {
        State state{whole_sum, 0};  // before the row's first tile
        if (at >= 0) do state = read(row + at); while (state.kind == nothing);
        const unsigned whole = __ballot_sync(kAll, state.kind == whole_sum);
        const bool counts = !whole || lane < __ffs(whole);
        const Sum sum = scan_warp(counts ? reinterpret_cast<const Sum&>(state.bits) : Sum(0));
        total += __shfl_sync(kAll, sum, 31);
        if (whole) return total;
    }
}

template <typename T>
__global__ void scan(const __grid_constant__ Globals g) {
    using Sum = std::conditional_t<std::is_integral_v<T>, int, float>;
    constexpr int size = tkjit::Group<T>::size, warps = 256 / 32;
    __shared__ Sum of_warp[warps];
    __shared__ Sum of_tiles_before;
    __shared__ unsigned number;
    const int n = g.x.cols(), tiles = g.tiles, warp = threadIdx.x / 32, lane = threadIdx.x % 32;

    // tiles are numbered in the order in which blocks begin, so that each block waits only for blocks that run already
    Word* const states = reinterpret_cast<Word*>(g.states.raw_ptr);
    if (threadIdx.x == 0) number = tiles > 1 ? unsigned(atomicAdd(&states[0], 1ull)) : blockIdx.x;
    __syncthreads();
    const unsigned row = number / tiles, tile = number % tiles;
    const int col = (tile * blockDim.x + threadIdx.x) * size;

    tkjit::Group<T> group;
    if (col < n) group = tkjit::load_group(g.x.raw_ptr + size_t(row) * n, col, n);
    Sum sums[size], sum = 0;
#pragma unroll
    for (int i = 0; i < size; ++i) sums[i] = sum += col + i < n ? Sum(group.element[i]) : Sum(0);

    const Sum in_warp = scan_warp(sum);
    if (lane == 31) of_warp[warp] = in_warp;
    __syncthreads();
    Sum before = __shfl_up_sync(kAll, in_warp, 1), of_tile = 0;
    if (lane == 0) before = 0;
#pragma unroll
    for (int i = 0; i < warps; ++i) {
        if (i < warp) before += of_warp[i];
        of_tile += of_warp[i];
    }
    if (tiles > 1) {
        Word* const row_states = states + 1 + size_t(row) * tiles;
        if (warp == 0) {
            if (lane == 0 && tile > 0) publish(row_states + tile, own_sum, of_tile);
            const Sum total = tile > 0 ? sum_before<Sum>(row_states, tile) : Sum(0);
            if (lane == 0) {
                publish(row_states + tile, whole_sum, total + of_tile);
                of_tiles_before = total;
            }
        }
        __syncthreads();
        before += of_tiles_before;
    }
#pragma unroll
    for (int i = 0; i < size; ++i) group.element[i] = T(sums[i] + before);
    if (col < n) tkjit::store_group(g.y.raw_ptr + size_t(row) * n, col, n, group);
}
