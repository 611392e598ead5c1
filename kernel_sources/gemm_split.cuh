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
/// `each(f)` calls `f(i, sum)` for the thread's sums, i < Sums. `thread` is the thread's number among the `Threads` that call
/// this function, `sync()` synchronises them, and `is_last` is in shared memory.
template <int Sums, int Threads, class Each, class Sync>
__device__ bool add_splits(const Partial& partial, const Split& split, int thread, bool& is_last, Each each, Sync sync) {
    const auto own = [&](int number) {
        return &partial.sums[unsigned(split.tile * split.count + number) * Sums * Threads + thread];
    };
    float* const to = own(split.number);
    each([&](int i, float& sum) { to[i * Threads] = sum; });
    __threadfence();
    sync();
    if (thread == 0) is_last = atomicAdd(&partial.finished[split.tile], 1) == split.count - 1;
    sync();
    if (!is_last) return false;
    __threadfence();
    each([&](int, float& sum) { sum = 0.f; });
    for (int number = 0; number < split.count; ++number) {
        const float* const from = own(number);
        each([&](int i, float& sum) { sum += __ldcg(from + i * Threads); });
    }
    return true;
}
