// Warp operations. Each is a *collective*: every lane in the mask contributes operands, which are on the lane's own
// stack. The last lane to arrive computes for all lanes, writes the results into their operands, and lets them
// continue.
//
// A collective does not wait for lanes in its mask that have exited. Source: PTX ISA, "shfl.sync", "vote.sync",
// "match.sync", "redux.sync": all non-exited threads in membermask; CUDA C++ Programming Guide, "Warp Shuffle
// Functions". An exited lane's value is undefined, so a shuffle from an exited lane fails. A cooperative group needs
// all its threads, and so do instructions with `.aligned`.
#pragma once

#include "block.h"
#include "fault.h"
#include "site.h"

#include <stddef.h>

namespace tkjit::sim {

/// The operands that the lanes in a mask contribute to a collective.
template <class Operands>
class Lanes {
  public:
    Lanes(unsigned mask, Thread* first) : mask(mask), first_(first) {}

    bool contains(int lane) const { return mask >> lane & 1; }
    Operands& operator[](int lane) const { return *static_cast<Operands*>(first_[lane].operands); }

    template <class Visit>
    void for_each(Visit visit) const {
        for (unsigned rest = mask; rest; rest &= rest - 1) {
            const int lane = __builtin_ctz(rest);
            visit(lane, (*this)[lane]);
        }
    }

    const unsigned mask;

  private:
    Thread* first_;
};

/// Returns the lanes that exist in the thread's warp. The last warp has fewer than 32 if the block's size is no
/// multiple of 32.
inline unsigned existing_lanes(const Thread& thread) {
    const unsigned lanes = thread.block->thread_count - (thread.linear - lane_of(thread));
    return lanes >= warp_threads ? ~0u : (1u << lanes) - 1;
}

/// Returns the participating lanes to the last lane to arrive, which then computes and calls release_collective.
/// Returns 0 to each other lane, once the last lane has made that call.
unsigned join_collective(unsigned mask, Operation operation, void* operands, Site site);
void release_collective();

/// Makes the running thread's next collective fail if a lane of its mask has exited, instead of not waiting for that
/// lane.
inline void require_whole_group() { current_thread->needs_whole_group = true; }

/// Contributes `mine` to the collective; `combine(Lanes<Operands>)` runs once, in the last lane to arrive.
template <class Operands, class Combine>
inline void collective(unsigned mask, Operation operation, Operands& mine, Combine combine, Site site) {
    Thread& thread = *current_thread;
    mask &= existing_lanes(thread);
    const unsigned lanes = join_collective(mask, operation, &mine, site);
    if (lanes == 0) return;
    combine(Lanes<Operands>(lanes, &thread - lane_of(thread)));
    release_collective();
}

/// Checks that all 32 lanes exist and run, for instructions that take no mask.
inline void require_full_warp(Operation operation, Site site) {
    const unsigned alive = warp_of(*current_thread).alive;
    if (alive != ~0u) fail(site, "%s needs all 32 lanes, but only 0x%08x are alive", operation_name(operation), alive);
    require_whole_group();
}

/// A value that is passed between lanes, as bytes, so that all types of the same size share one instantiation.
template <size_t bytes>
struct ShuffleOperands {
    unsigned char value[bytes];
    unsigned char result[bytes];
    int source_lane;
};

/// Fails, because an exited lane's value is undefined.
[[noreturn]] void fail_exited_source(Operation operation, unsigned mask, int lane, int source_lane, Site site);

/// Writes the value that a lane receives from a lane outside of the mask. It is undefined. In the checker's builds, it is
/// a different one in each order of the threads, and for floats it is NaN or very large.
#ifdef TKJIT_SIM_CHECKED
void fill_undefined(void* value, size_t bytes);
#endif

/// Gives each lane the value of its source lane. A lane whose source does not take part keeps its own value, as on most
/// devices.
template <size_t bytes>
__attribute__((noinline)) void shuffle_bytes(unsigned mask, Operation operation, ShuffleOperands<bytes>& mine,
                                             Site site) {
    const unsigned named = mask & existing_lanes(*current_thread);
    const auto combine = [=](Lanes<ShuffleOperands<bytes>> lanes) {
        lanes.for_each([&](int lane, ShuffleOperands<bytes>& operands) {
            if ((named & ~lanes.mask) >> operands.source_lane & 1) {
                fail_exited_source(operation, mask, lane, operands.source_lane, site);
            }
#ifdef TKJIT_SIM_CHECKED
            if (!lanes.contains(operands.source_lane)) return fill_undefined(operands.result, bytes);
#endif
            const int source = lanes.contains(operands.source_lane) ? operands.source_lane : lane;
            __builtin_memcpy(operands.result, lanes[source].value, bytes);
        });
    };
    collective(mask, operation, mine, combine, site);
}

inline void check_width(int width, Site site) {
    if (width < 1 || width > 32 || (width & (width - 1))) {
        fail(site, "a shuffle's width must be a power of two up to 32, not %d", width);
    }
}

template <class T>
inline T shuffle(unsigned mask, Operation operation, T value, int source_lane, Site site) {
    static_assert(__is_trivially_copyable(T), "a shuffle copies bytes, so its type must be trivially copyable");
    ShuffleOperands<sizeof(T)> operands;
    __builtin_memcpy(operands.value, &value, sizeof(T));
    operands.source_lane = source_lane;
    shuffle_bytes(mask, operation, operands, site);
    __builtin_memcpy(static_cast<void*>(&value), operands.result, sizeof(T));
    return value;
}

inline int running_lane() { return lane_of(*current_thread); }

/// Returns the lanes that are at the same `__activemask()`.
unsigned active_mask(Site site);

struct VoteOperands {
    bool predicate;
    unsigned ballot;
};

inline unsigned vote(unsigned mask, Operation operation, bool predicate, Site site) {
    VoteOperands operands{predicate, 0};
    const auto combine = [](Lanes<VoteOperands> lanes) {
        unsigned ballot = 0;
        lanes.for_each(
            [&](int lane, VoteOperands& lane_operands) { ballot |= unsigned{lane_operands.predicate} << lane; });
        lanes.for_each([&](int, VoteOperands& lane_operands) { lane_operands.ballot = ballot; });
    };
    collective(mask, operation, operands, combine, site);
    return operands.ballot;
}

template <class T>
struct MatchOperands {
    T value;
    unsigned equal_lanes;
    unsigned all_lanes;
};

template <class T>
inline MatchOperands<T> match(unsigned mask, Operation operation, T value, Site site) {
    MatchOperands<T> operands{value, 0, 0};
    const auto combine = [](Lanes<MatchOperands<T>> lanes) {
        lanes.for_each([&](int, MatchOperands<T>& mine) {
            mine.all_lanes = lanes.mask;
            lanes.for_each([&](int lane, MatchOperands<T>& other) {
                // The instruction compares bits, not values: it knows no floating point.
                if (__builtin_memcmp(&mine.value, &other.value, sizeof(T)) == 0) mine.equal_lanes |= 1u << lane;
            });
        });
    };
    collective(mask, operation, operands, combine, site);
    return operands;
}

template <class T, class Combine>
inline T reduce(unsigned mask, Operation operation, T value, Combine combine_two, Site site) {
    const auto combine = [&](Lanes<T> lanes) {
        const int first = __builtin_ctz(lanes.mask);
        T total = lanes[first];
        lanes.for_each([&](int lane, T& lane_value) {
            if (lane != first) total = combine_two(total, lane_value);
        });
        lanes.for_each([&](int, T& lane_value) { lane_value = total; });
    };
    collective(mask, operation, value, combine, site);
    return value;
}

}  // namespace tkjit::sim
