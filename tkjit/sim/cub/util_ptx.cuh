// CUB's functions for warps and lanes.
#pragma once

#include "detail/logical_warp.cuh"
#include "util_type.cuh"

namespace cub {

inline unsigned LaneId() { return static_cast<unsigned>(tkjit::sim::running_lane()); }
inline unsigned WarpId() { return tkjit::sim::current_thread->linear / 32; }
inline unsigned LaneMaskLt() { return (1u << LaneId()) - 1; }
inline unsigned LaneMaskLe() { return LaneMaskLt() | 1u << LaneId(); }
inline unsigned LaneMaskGt() { return ~LaneMaskLe(); }
inline unsigned LaneMaskGe() { return ~LaneMaskLt(); }

inline void CTA_SYNC(detail::Site site = detail::Site::here()) { tkjit::sim::sync_threads(site); }
inline int CTA_SYNC_AND(int predicate) { return __syncthreads_and(predicate); }
inline int CTA_SYNC_OR(int predicate) { return __syncthreads_or(predicate); }
inline void WARP_SYNC(unsigned mask, detail::Site site = detail::Site::here()) { __syncwarp(mask, site); }
inline int WARP_ANY(int predicate, unsigned mask) { return __any_sync(mask, predicate); }
inline int WARP_ALL(int predicate, unsigned mask) { return __all_sync(mask, predicate); }
inline int WARP_BALLOT(int predicate, unsigned mask) { return static_cast<int>(__ballot_sync(mask, predicate)); }
inline void ThreadTrap() { __trap(); }

/// The lanes of a logical warp, as a mask of its warp.
template <int LogicalWarpThreads>
unsigned WarpMask(unsigned warp) {
    return detail::lanes_of_warp<LogicalWarpThreads>(static_cast<int>(warp) * LogicalWarpThreads);
}

/// The value `offset` lanes below, or a lane's own if that is below `first_lane` of its logical warp.
template <int LogicalWarpThreads, class T>
T ShuffleUp(T input, int offset, int first_lane, unsigned mask, detail::Site site = detail::Site::here()) {
    const int lane = tkjit::sim::running_lane(), first = lane - lane % LogicalWarpThreads + first_lane;
    return detail::shuffle_bytes_of(mask, detail::Operation::shuffle_up, input, lane - offset >= first ? lane - offset : lane, site);
}

/// The value `offset` lanes above, or a lane's own if that is above `last_lane` of its logical warp.
template <int LogicalWarpThreads, class T>
T ShuffleDown(T input, int offset, int last_lane, unsigned mask, detail::Site site = detail::Site::here()) {
    const int lane = tkjit::sim::running_lane(), last = lane - lane % LogicalWarpThreads + last_lane;
    return detail::shuffle_bytes_of(mask, detail::Operation::shuffle_down, input, lane + offset <= last ? lane + offset : lane, site);
}

/// The value of a lane of the logical warp.
template <int LogicalWarpThreads, class T>
T ShuffleIndex(T input, int source, unsigned mask, detail::Site site = detail::Site::here()) {
    const int lane = tkjit::sim::running_lane(), first = lane - lane % LogicalWarpThreads;
    return detail::shuffle_bytes_of(mask, detail::Operation::shuffle, input, first + source % LogicalWarpThreads, site);
}

/// Extracts `bits` bits of a number, from bit `start` on.
template <class Number>
unsigned BFE(Number source, unsigned start, unsigned bits) {
    if (bits == 0) return 0;
    using Bits = typename NumericTraits<Number>::UnsignedBits;
    const Bits shifted = static_cast<Bits>(source) >> start;
    return static_cast<unsigned>(bits >= 32 ? shifted : shifted & ((Bits{1} << bits) - 1));
}

}  // namespace cub
