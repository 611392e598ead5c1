// The race detector's state: for threads, for the objects at which they meet, and for memory.
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

/// The detector's record of a CUDA thread.
struct ThreadState {
    Knowledge knows;
    Knowledge released;  // its knowledge at its last fence
    std::vector<unsigned> calls;  // places, outermost first
    unsigned copies[3] = {};       // the number issued, by kind; a warpgroup's first thread counts wgmma products
    std::vector<unsigned> groups;  // for each wgmma group not waited for yet: the products issued before its commit
};

struct BlockState {
    unsigned number;
    std::vector<ThreadState> threads;
};

/// An object at which threads meet. It collects the knowledge of the arriving threads, and their knowledge at their last
/// fences, which their later atomics pass on.
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

/// Returns whether a thread knows that an access is over, because it made the access or has learned of it from other
/// threads.
inline bool is_before(const Access& earlier, const Thread& thread) {
    if (earlier.launch != launches) return true;
    if (earlier.block == state_of(*thread.block).number && earlier.thread == thread.linear) return true;
    return state_of(thread).knows.includes(earlier.block, earlier.thread, earlier.clock);
}

}  // namespace tkjit::sim::race
