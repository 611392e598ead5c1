// cub::BlockRakingLayout: the layout of a block's items in shared memory, from which one warp reads them in segments.
#pragma once

#include "../util_type.cuh"

namespace cub {

/// Each of `RAKING_THREADS` threads reads a segment. CUB pads segments to avoid bank conflicts, which are not simulated.
template <class T, int Threads>
struct BlockRakingLayout {
    static constexpr int SHARED_ELEMENTS = Threads;
    static constexpr int MAX_RAKING_THREADS = Threads < 32 ? Threads : 32;
    static constexpr int SEGMENT_LENGTH = (Threads + MAX_RAKING_THREADS - 1) / MAX_RAKING_THREADS;
    static constexpr int RAKING_THREADS = (Threads + SEGMENT_LENGTH - 1) / SEGMENT_LENGTH;
    static constexpr int USE_SEGMENT_PADDING = 0;
    static constexpr int GRID_ELEMENTS = RAKING_THREADS * SEGMENT_LENGTH;
    static constexpr bool UNGUARDED = Threads % RAKING_THREADS == 0;  // whether all segments are full

    struct TempStorage : Uninitialized<T[GRID_ELEMENTS]> {};

    /// Where the thread `rank` puts its item.
    static T* PlacementPtr(TempStorage& storage, unsigned rank) { return storage.Alias() + rank; }
    /// The segment that the thread `rank` of the warp reads.
    static T* RakingPtr(TempStorage& storage, unsigned rank) { return storage.Alias() + rank * SEGMENT_LENGTH; }
};

}  // namespace cub
