// Splits of a matrix product along K, for products with too few tiles for all multiprocessors. Each block that works on a
// tile writes its sums to global memory. The one that finishes last adds them up, always in the same order, so that the
// result does not depend on which block that is.
#pragma once

#include <tkjit/gl.h>

struct Partial {
    tkjit::gl<float, 1, 1, 1> sums;    // of all splits of all tiles, in the order of registers and threads
    tkjit::gl<int, 1, 1, 1> finished;  // for each tile, the number of blocks that have written their sums
};

/// One of the `count` splits of a tile.
struct Split {
    int tile, number, count;
};

/// Adds the sums of a tile's other splits to this block's own. Returns false in all blocks but the last one of the tile.
///
/// `thread` is the thread's number among the `Threads` that call this function, `sync()` synchronises them, and `is_last` is
/// in shared memory. Of each four sums, two are in one row of C and two in another one; `has_row` tells which rows exist.
template <int Threads, int Count, class Sync>
__device__ bool add_splits(const Partial& partial, const Split& split, int thread, bool& is_last, float (&sums)[Count],
                           const bool (&has_row)[2], Sync sync) {
    const auto own = [&](int number) {
        const unsigned part = split.tile * split.count + number;
        return reinterpret_cast<float2*>(partial.sums.raw_ptr) + part * (Count / 2 * Threads) + thread;
    };
    const auto each_pair = [&](float2* memory, auto f) {
#pragma unroll
        for (int row = 0; row < 2; ++row)
            if (has_row[row])
#pragma unroll
                for (int i = 2 * row; i < Count; i += 4) f(memory[i / 2 * Threads], sums[i], sums[i + 1]);
    };
    each_pair(own(split.number), [](float2& stored, float first, float second) { stored = {first, second}; });
    sync();
    if (thread == 0) {
        __threadfence();  // after the barrier, for the writes of all threads
        is_last = atomicAdd(&partial.finished[split.tile], 1) == split.count - 1;
        __threadfence();
    }
    sync();
    if (!is_last) return false;
#pragma unroll
    for (float& sum : sums) sum = 0.f;
    for (int number = 0; number < split.count; ++number)
        each_pair(own(number), [](const float2& stored, float& first, float& second) {
            const float2 other = __ldcg(&stored);
            first += other.x;
            second += other.y;
        });
    return true;
}
