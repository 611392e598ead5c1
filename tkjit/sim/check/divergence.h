// Finds divergent barriers that a device accepts always or sometimes, and that compute-sanitizer's synccheck reports.
// All of these findings are warnings, because PTX gives most such barriers a meaning. Barriers that never work are
// faults (runtime/barrier.h, runtime/mbarrier.h).
//
// Source: PTX ISA, "barrier{.cta}", "exit", "mbarrier.init"; CUDA C++ Programming Guide, "Synchronization Functions".
#pragma once

#include "../detail/block.h"
#include "../detail/cluster.h"
#include "../detail/site.h"
#include "../detail/vector_types.h"
#include "findings.h"
#include "race.h"
#include "race_accesses.h"
#include "race_state.h"
#include "shadow.h"

#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace tkjit::sim::race {

inline constexpr size_t mbarrier_bytes = 8;

/// The detector's record of an mbarrier in the running block.
struct MbarrierState {
    unsigned pending, count;
    Site site;  // of the last arrival
    uint3 thread;
    Access initialised;      // the write by mbarrier_init
    Site initialised_at;
    uint3 initialised_by;
    bool is_fenced = false;  // by a fence.mbarrier_init of the thread that initialised it
};

// For each named barrier, the lanes of each warp that have reached it.
inline std::map<const void*, std::array<unsigned, max_warps_per_block>> lanes_at;
// By block, because the blocks of a cooperative launch take turns.
inline std::map<const Block*, std::map<const void*, MbarrierState>> mbarriers;

inline check::Json place_of(Site site, uint3 thread, const char* access = "wait") {
    check::Json json;
    json.numbers("calls", {}).text("file", site.file).number("line", site.line).text("access", access);
    return json.index("block", blockIdx).index("thread", thread);
}

/// Writes a warning, but only once for each pair of lines.
inline void warn(const std::string& text, Site site, uint3 thread, const Site* other = nullptr,
                 const uint3* other_thread = nullptr, const char* kind = "divergence", const char* access = "wait",
                 const char* other_access = "wait") {
    static std::set<std::array<std::string, 2>> told;
    const auto words = [](Site one) { return std::string(one.file) + ":" + std::to_string(one.line); };
    std::array<std::string, 2> places{words(site), other ? words(*other) : text.substr(0, text.find(' '))};
    if (other && places[1] < places[0]) std::swap(places[0], places[1]);
    if (!told.insert(places).second) return;
    check::Json json;
    json.text("kind", kind).number("warning", 1).text("text", text).object("here", place_of(site, thread, access));
    if (other) json.object("there", place_of(*other, *other_thread, other_access));
    check::write_line(json);
}

inline std::string in_words(uint3 index) {
    return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " + std::to_string(index.z) + ")";
}

/// Warns that a block's warps reach a __syncthreads from two places.
void note_places(const Barrier& barrier, Site site) {
    const Thread& first = barrier.first ? *barrier.first : *current_thread;
    warn(std::string(operation_name(barrier.operation)) +
             " is reached from two places by threads of one block; CUDA allows it in a branch only if all threads "
             "take the same branch",
         site, current_thread->index, &barrier.site, &first.index);
}

void note_named(const Barrier& barrier) {
    lanes_at[&barrier][current_thread->linear / warp_threads] |= 1u << lane_of(*current_thread);
}

/// Warns that a warp operation completes although some of the lanes in its mask have exited.
void note_exited_lanes(Operation operation, unsigned mask, Site site) {
    const Thread& thread = *current_thread;
    const unsigned first = thread.linear - lane_of(thread);
    const unsigned count = thread.block->thread_count - first;
    const unsigned there = count < warp_threads ? (1u << count) - 1 : ~0u;
    const unsigned gone = mask & there & ~warp_of(thread).alive;
    if (gone == 0) return;
    warn(std::string(operation_name(operation)) + " names lanes that have exited, such as lane " +
             std::to_string(__builtin_ctz(gone)) + ": no thread of the warp may return before it; let it take part "
                                                   "with a value that changes nothing",
         site, thread.index);
}

/// Warns if only some of a warp's lanes reach a named barrier, because on a device the barrier counts whole warps.
inline void check_whole_warps(const Block& block, const Barrier& barrier) {
    const auto found = lanes_at.find(&barrier);
    if (found == lanes_at.end()) return;
    for (unsigned warp = 0; warp < max_warps_per_block; warp++) {
        const unsigned lanes = found->second[warp], missing = block.warps[warp].alive & ~lanes;
        if (lanes == 0 || missing == 0) continue;
        const Thread& there = block.threads[warp * warp_threads + unsigned(__builtin_ctz(lanes))];
        warn("a named barrier is reached by " + std::to_string(__builtin_popcount(lanes)) +
                 " lanes of a warp but not by the others; a device counts whole warps",
             barrier.site, there.index);
    }
    lanes_at.erase(found);
}

/// Called when one of the block's barriers completes.
void check_participants(const Block& block, const Barrier& barrier) {
    if (barrier.operation == Operation::named_barrier) return check_whole_warps(block, barrier);
    if (barrier.expected != 0 || block.exited == 0) return;
    unsigned gone = 0;
    while (!block.threads[gone].exited) gone++;
    const Thread& waits = barrier.first ? *barrier.first : *current_thread;
    warn(std::string(operation_name(barrier.operation)) + " is reached by " + std::to_string(barrier.arrived) + " of " +
             std::to_string(block.thread_count) + " threads; the others, such as thread " +
             in_words(block.threads[gone].index) + ", ended without it. All threads must reach it: put it outside of "
             "any branch, and let no thread return before it",
         barrier.site, waits.index);
}

// ---- mbarriers

void note_mbarrier_init(const void* barrier, unsigned count, Site site) {
    auto& known = mbarriers[current_thread->block];
    if (const auto found = known.find(barrier); found != known.end()) {
        warn("mbarrier_init of an mbarrier that is in use: call mbarrier_invalidate first", site,
             current_thread->index, &found->second.site, &found->second.thread);
    }
    const Access initialised = access_of(*current_thread, mbarrier_use, place_of(site));
    access(barrier, mbarrier_bytes, true, false, initialised);
    known[barrier] = {count, count, site, current_thread->index, initialised, site, current_thread->index};
}

void fence_mbarrier_init() {
    for (auto& [_, state] : mbarriers[current_thread->block])
        state.is_fenced |= state.initialised.thread == current_thread->linear;
    ThreadState& thread = state_of(*current_thread);
    thread.released_mbarriers = std::make_shared<const View>(thread);
    thread.knows.advance(current_thread->linear);
}

void note_completion_at(const void* barrier, Site site) {
    auto& known = mbarriers[&owner_of(barrier)];
    const auto found = known.find(barrier);
    if (found == known.end() || found->second.is_fenced) return;
    const MbarrierState& state = found->second;
    if (is_seen_by_async(state.initialised, *current_thread, check::Space::static_shared)) return;
    warn("an asynchronous copy completes at an mbarrier, but may not see its initialisation; call "
         "tkjit::fence_mbarrier_init() (fence.mbarrier_init) after mbarrier_init, in the same thread",
         site, current_thread->index, &state.initialised_at, &state.initialised_by, "proxy", "asynchronous copy", "write");
}

void note_mbarrier_use(const void* barrier, Site site) {
    access(barrier, mbarrier_bytes, false, true, mbarrier_use, place_of(site));
}

/// From now on the memory may be used for data.
void note_mbarrier_end(const void* barrier, Site site) {
    mbarriers[current_thread->block].erase(barrier);
    access(barrier, mbarrier_bytes, true, false, mbarrier_use, place_of(site));
    shadow.for_each(reinterpret_cast<uintptr_t>(barrier), mbarrier_bytes, [](Cell& cell, uintptr_t, unsigned) {
        cell.write.kind = plain;
    });
}

void note_mbarrier_arrival(const void* barrier, unsigned pending, unsigned count, Site site) {
    MbarrierState& state = mbarriers[&owner_of(barrier)][barrier];
    state.pending = pending;
    state.count = count;
    state.site = site;
    state.thread = current_thread->index;
}

/// Warns, when a block ends, about arrivals at a phase that never completed, for example because a branch kept other
/// threads away.
inline void check_mbarriers(const Block& block) {
    const auto found = mbarriers.find(&block);
    if (found == mbarriers.end()) return;
    for (const auto& [address, state] : found->second) {
        if (block.abandoned || state.pending == 0 || state.pending == state.count) continue;
        warn("mbarrier: only " + std::to_string(state.count - state.pending) + " of the " +
                 std::to_string(state.count) +
                 " arrivals of its last phase came before the block ended; this was the last of them",
             state.site, state.thread);
    }
    mbarriers.erase(found);
}

// ---- stores at the end of a thread

/// Warns that shared memory may be given to another block before a store has read it.
void note_store_at_exit(Site site) {
    warn("a thread ends without waiting for its bulk store, which may still read shared memory when the block ends; "
         "call bulk_store_commit() and bulk_store_wait_read<0>() in the thread that stores",
         site, current_thread->index, nullptr, nullptr, "copy", "asynchronous read");
}

}  // namespace tkjit::sim::race
