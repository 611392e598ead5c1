// The race detector's state of threads, of the objects at which they meet, and of memory.
#pragma once

#include "../detail/block.h"
#include "clocks.h"
#include "places.h"
#include "regions.h"
#include "shadow.h"

#include <unordered_map>
#include <vector>

namespace tkjit::sim::race {

using check::places;
using check::Region;

/// The detector's state of a CUDA thread.
struct ThreadState {
    Knowledge knows;
    Knowledge released;  // at its last fence
    std::vector<unsigned> calls;  // places, outermost first
    unsigned copies[3] = {};      // how many it has issued, by copier; for products, its warpgroup, at its first thread
    std::vector<unsigned> groups;  // of products that it has not waited for: the number of products at each commit
};

struct BlockState {
    unsigned number;
    std::vector<ThreadState> threads;
};

/// An object at which threads meet: what they know, and what they knew at their last fences, for later atomics.
struct Meeting {
    Knowledge gathered, completed;
    Knowledge fences_gathered, fences_completed;
};

inline Shadow shadow;
inline std::unordered_map<const void*, Meeting> meetings;
inline std::unordered_map<const void*, Knowledge> atomics;
inline unsigned launches = 0;

inline BlockState& state_of(const Block& block) { return *static_cast<BlockState*>(block.race_state); }
inline ThreadState& state_of(const Thread& thread) { return state_of(*thread.block).threads[thread.linear]; }

inline unsigned calling_place(const ThreadState& state) {
    return state.calls.empty() ? check::Places::root : state.calls.back();
}

inline Access access_of(const Thread& thread, Kind kind, unsigned where) {
    const unsigned clock = state_of(thread).knows.clock_of(thread.linear);
    return {launches, state_of(*thread.block).number, clock, where, static_cast<unsigned short>(thread.linear), kind};
}

/// Whether a thread knows that an access is over, by itself or from another thread.
inline bool is_before(const Access& earlier, const Thread& thread) {
    if (earlier.launch != launches) return true;
    if (earlier.block == state_of(*thread.block).number && earlier.thread == thread.linear) return true;
    return state_of(thread).knows.includes(earlier.block, earlier.thread, earlier.clock);
}

}  // namespace tkjit::sim::race
