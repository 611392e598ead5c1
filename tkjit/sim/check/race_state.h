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

/// What a thread, or an object at which threads meet, knows: which accesses are over, and which of these accesses the
/// async proxy sees as well. TMA and wgmma access memory through this proxy. A write is visible to it if a proxy fence is
/// on the path of synchronisation from the write to the asynchronous operation.
/// Source: PTX ISA, "Memory Consistency Model: Proxy-preserved base causality order".
struct View {
    Knowledge knows;
    Knowledge seen_by_async[2];  // by state space: shared, global
    Knowledge unfenced;          // known from a compare-and-swap, and over only once a fence follows

    bool is_empty() const { return knows.is_empty(); }
    void clear() { *this = {}; }
    void learn(const View& other) {
        knows.learn(other.knows);
        unfenced.learn(other.unfenced);
        for (unsigned i = 0; i < 2; i++) seen_by_async[i].learn(other.seen_by_async[i]);
    }
    /// Learns at once, or when a fence follows. What the async proxy sees counts only for accesses that are known.
    void learn_after(bool fence, const View& other) {
        if (!fence) return learn(other);
        unfenced.learn(other.knows);
        for (unsigned i = 0; i < 2; i++) seen_by_async[i].learn(other.seen_by_async[i]);
    }
    /// Forgets everything that another thread of the block does not know.
    void keep_common(const View& other) {
        knows.keep_common(other.knows);
        for (unsigned i = 0; i < 2; i++) seen_by_async[i].keep_common(other.seen_by_async[i]);
    }
};

/// The detector's record of a CUDA thread.
struct ThreadState : View {
    View released;           // its view at its last fence
    View released_in_block;  // its view at its last __threadfence_block, which only its own block's threads can learn
    bool in_block_scope = false, swaps = false;  // see detail/scopes.h
    std::vector<unsigned> calls;  // places, outermost first
    unsigned copies[4] = {};       // the number issued, by kind; a warpgroup's first thread counts wgmma products
    std::vector<unsigned> store_groups;  // for each group of stores not waited for yet: the writes issued before its commit
    std::vector<unsigned> groups;  // for each wgmma group not waited for yet: the products issued before its commit
    unsigned committed_products = 0, finished_products = 0;
    bool has_fenced_registers = false;  // by wgmma.fence, since it last waited for all products
    unsigned last_product = 0;          // the place of the warpgroup's last product
};

struct BlockState {
    unsigned number;
    std::vector<ThreadState> threads;
};

/// An object at which threads meet. It collects the knowledge of the arriving threads, and their knowledge at their last
/// fences, which their later atomics pass on.
struct Meeting {
    View gathered, completed;
    View fences_gathered, fences_completed;
    View block_fences_gathered, block_fences_completed;  // by __threadfence_block
};

inline Shadow shadow;
inline std::unordered_map<const void*, Meeting> meetings;
/// What atomic operations on a word have passed on: to all threads, and to those of a block.
struct Passed {
    View to_all;
    std::unordered_map<unsigned, View> to_block;
};
inline std::unordered_map<const void*, Passed> atomics;
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

/// Returns whether a thread would know that an access is over if it executed a fence first.
inline bool is_before_but_for_fence(const Access& earlier, const Thread& thread) {
    return state_of(thread).unfenced.includes(earlier.block, earlier.thread, earlier.clock);
}

/// Returns whether the async proxy sees a write that the thread knows is over.
inline bool is_seen_by_async(const Access& earlier, const Thread& thread, check::Space space) {
    if (earlier.launch != launches) return true;
    const bool is_global = space == check::Space::tensor || space == check::Space::variable;
    return state_of(thread).seen_by_async[is_global].includes(earlier.block, earlier.thread, earlier.clock);
}

}  // namespace tkjit::sim::race
