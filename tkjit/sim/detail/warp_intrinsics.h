// CUDA's names for the warp operations.
#pragma once

#include "block.h"
#include "site.h"
#include "warp.h"

inline void __syncwarp(unsigned mask = ~0u, tkjit::sim::Site site = tkjit::sim::Site::here()) {
    char nothing = 0;
    tkjit::sim::collective(mask, tkjit::sim::Operation::syncwarp, nothing, [](tkjit::sim::Lanes<char>) {}, site);
}

inline unsigned __activemask(tkjit::sim::Site site = tkjit::sim::Site::here()) { return tkjit::sim::active_mask(site); }

template <class T>
inline T __shfl_sync(unsigned mask, T value, int source_lane, int width = 32,
                     tkjit::sim::Site site = tkjit::sim::Site::here()) {
    tkjit::sim::check_width(width, site);
    const int segment = tkjit::sim::running_lane() & ~(width - 1);
    return tkjit::sim::shuffle(mask, tkjit::sim::Operation::shuffle, value, segment | (source_lane & (width - 1)),
                               site);
}

template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                        tkjit::sim::Site site = tkjit::sim::Site::here()) {
    tkjit::sim::check_width(width, site);
    const int lane = tkjit::sim::running_lane();
    const bool inside = static_cast<unsigned>(lane & (width - 1)) >= delta;
    return tkjit::sim::shuffle(mask, tkjit::sim::Operation::shuffle_up, value, inside ? lane - int(delta) : lane, site);
}

template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                          tkjit::sim::Site site = tkjit::sim::Site::here()) {
    tkjit::sim::check_width(width, site);
    const int lane = tkjit::sim::running_lane();
    const bool inside = delta < static_cast<unsigned>(width) && (lane & (width - 1)) + int(delta) < width;
    return tkjit::sim::shuffle(mask, tkjit::sim::Operation::shuffle_down, value, inside ? lane + int(delta) : lane,
                               site);
}

/// PTX ISA, `shfl.bfly`: a lane keeps its own value if its source lane is in a higher segment, but reads from a lower
/// segment.
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                         tkjit::sim::Site site = tkjit::sim::Site::here()) {
    tkjit::sim::check_width(width, site);
    const int lane = tkjit::sim::running_lane();
    const int source = (lane ^ lane_mask) & 31;
    const bool inside = source <= (lane | (width - 1));
    return tkjit::sim::shuffle(mask, tkjit::sim::Operation::shuffle_xor, value, inside ? source : lane, site);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, tkjit::sim::Site site = tkjit::sim::Site::here()) {
    return tkjit::sim::vote(mask, tkjit::sim::Operation::ballot, predicate != 0, site);
}

inline int __any_sync(unsigned mask, int predicate, tkjit::sim::Site site = tkjit::sim::Site::here()) {
    return tkjit::sim::vote(mask, tkjit::sim::Operation::any, predicate != 0, site) != 0;
}

inline int __all_sync(unsigned mask, int predicate, tkjit::sim::Site site = tkjit::sim::Site::here()) {
    return tkjit::sim::vote(mask, tkjit::sim::Operation::all, predicate == 0, site) == 0;
}

/// Returns the lanes in `mask` whose value has the same bits as the caller's.
template <class T>
inline unsigned __match_any_sync(unsigned mask, T value, tkjit::sim::Site site = tkjit::sim::Site::here()) {
    return tkjit::sim::match(mask, tkjit::sim::Operation::match_any, value, site).equal_lanes;
}

/// If all lanes in the mask have the same value, returns the mask without exited lanes and sets `*all_equal` to 1, else
/// returns 0 and sets it to 0.
template <class T>
inline unsigned __match_all_sync(unsigned mask, T value, int* all_equal,
                                 tkjit::sim::Site site = tkjit::sim::Site::here()) {
    const auto found = tkjit::sim::match(mask, tkjit::sim::Operation::match_all, value, site);
    *all_equal = found.equal_lanes == found.all_lanes;
    return *all_equal ? found.all_lanes : 0;
}

#define TKJIT_SIM_WARP_REDUCTION(type, name, expression)                                                              \
    inline type __reduce_##name##_sync(unsigned mask, type value, tkjit::sim::Site site = tkjit::sim::Site::here()) { \
        return tkjit::sim::reduce(                                                                                    \
            mask, tkjit::sim::Operation::reduce_##name, value, [](type a, type b) -> type { return expression; },     \
            site);                                                                                                    \
    }
TKJIT_SIM_WARP_REDUCTION(unsigned, add, a + b)
TKJIT_SIM_WARP_REDUCTION(unsigned, min, b < a ? b : a)
TKJIT_SIM_WARP_REDUCTION(unsigned, max, b > a ? b : a)
TKJIT_SIM_WARP_REDUCTION(unsigned, and, a& b)
TKJIT_SIM_WARP_REDUCTION(unsigned, or, a | b)
TKJIT_SIM_WARP_REDUCTION(unsigned, xor, a ^ b)
TKJIT_SIM_WARP_REDUCTION(int, add, static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b)))
TKJIT_SIM_WARP_REDUCTION(int, min, b < a ? b : a)
TKJIT_SIM_WARP_REDUCTION(int, max, b > a ? b : a)
#undef TKJIT_SIM_WARP_REDUCTION
