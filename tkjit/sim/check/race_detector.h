// Finds races (two threads access the same memory without an order, and at least one writes), reads of shared memory
// and outputs that were never written, and uses of memory that an asynchronous copy has not filled yet.
//
// The compiler reports each access (instrumentation.h), and the simulator each barrier and copy (race.h). Accesses are
// ordered as on a device: by barriers, __syncwarp, mbarriers, and atomics after a fence or with an order. The warp's
// other operations do not order them (CUDA C++ Programming Guide, "Warp Shuffle Functions"), nor does running in
// lockstep.
#pragma once

#include "../detail/block.h"
#include "../detail/site.h"
#include "../detail/vector_types.h"
#include "../detail/window.h"
#include "../runtime/launch_state.h"
#include "divergence.h"
#include "findings.h"
#include "race.h"
#include "race_accesses.h"
#include "race_products.h"
#include "race_state.h"
#include "race_tensor_memory.h"
#include "regions.h"
#include "shadow.h"

#include <stddef.h>
#include <stdint.h>

#include <string>
#include <unordered_map>
#include <vector>

namespace tkjit::sim::race {

// ---- meetings

void arrive(const void* object) {
    const Thread& thread = *current_thread;
    ThreadState& state = state_of(thread);
    Meeting& meeting = meetings[object];
    meeting.gathered.learn(state);
    for (unsigned i = 0; i < scopes; i++) meeting.fences_gathered[i].learn(state.released[i]);
    state.knows.advance(thread.linear);
}

void arrive_relaxed(const void* object, Scope scope) {
    ThreadState& state = state_of(*current_thread);
    Meeting& meeting = meetings[object];
    // without clusters, a fence for the cluster counts as one for the block
    if (current_block->cluster->count == 1 && scope == Scope::cluster) scope = Scope::block;
    for (const Scope fenced : {Scope::block, Scope::cluster, Scope::device}) {
        if (fenced >= scope) meeting.gathered.learn(state.released[number_of(fenced)]);
    }
    if (state.released_mbarriers) meeting.gathered.learn(*state.released_mbarriers);
    state.knows.advance(current_thread->linear);
}

/// Keeps what earlier phases gathered, because a thread that waited for one phase may leave after the next is complete.
void complete(const void* object) {
    Meeting& meeting = meetings[object];
    meeting.completed.learn(meeting.gathered);
    meeting.gathered.clear();
    for (unsigned i = 0; i < scopes; i++) {
        meeting.fences_completed[i].learn(meeting.fences_gathered[i]);
        meeting.fences_gathered[i].clear();
    }
}

void leave(const void* object, bool acquires) {
    ThreadState& state = state_of(*current_thread);
    const Meeting& meeting = meetings[object];
    state.learn_after(!acquires, meeting.completed);
    state.has_waited_relaxed |= !acquires;
    if (!acquires) return;
    for (unsigned i = 0; i < scopes; i++) state.released[i].learn(meeting.fences_completed[i]);
}

/// Returns the state of the thread that issued an asynchronous operation, if its block is of the running cluster.
inline const ThreadState* issuer_of(const Moment& issued) {
    const Cluster& cluster = *current_block->cluster;
    for (unsigned i = 0; i < cluster.count; i++) {
        const Block& block = *cluster.blocks[i];
        if (block.race_state == nullptr || state_of(block).number != issued.block) continue;
        return &state_of(block).threads[issued.thread % block.thread_count];
    }
    return nullptr;
}

void arrive_for(const void* object, const Moment& issued) {
    View& gathered = meetings[object].gathered;
    gathered.knows.learn(issued.block, issued.thread, issued.clock);
    const ThreadState* const issuer = is_over(0) ? nullptr : issuer_of(issued);
    if (issuer) gathered.knows_previous_launches |= issuer->knows_previous_launches;
}

// ---- atomics

/// Adds to `known` what `other` knows about the threads of the running thread's block or cluster, or about all threads.
inline void learn_in(Scope scope, Knowledge& known, const Knowledge& other) {
    const unsigned block = state_of(*current_thread->block).number;
    if (scope == Scope::device) return known.learn(other);
    if (scope == Scope::block) return known.learn_of_block(block, other);
    const unsigned cluster = cluster_of(launches, block);
    known.learn_of_blocks(other, [cluster](unsigned one) { return cluster_of(launches, one) == cluster; });
}

/// Records a fence: the thread's later atomics pass on what the thread knows now, whatever order they ask for, to the
/// threads in the fence's scope.
inline void fence(Scope scope) {
    ThreadState& state = state_of(*current_thread);
    learn_in(scope, state.knows, state.unfenced);
    if (scope == Scope::device) state.unfenced.clear();
    state.has_waited_relaxed = false;
    state.released[number_of(scope)] = state;
    state.knows.advance(current_thread->linear);
}

void set_scope(Scope scope) {
    if (current_thread) state_of(*current_thread).scope = scope;
}
void set_swap(bool begins) {
    if (current_thread) state_of(*current_thread).swaps = begins;
}

/// Records a proxy fence: the async proxy sees every access that the thread knows is over.
void fence_async_proxy(bool shared, bool global) {
    const unsigned block = state_of(*current_thread->block).number, thread = current_thread->linear;
    ThreadState& state = state_of(*current_thread);
    for (const unsigned space : {0u, 1u}) {
        if (!(space ? global : shared)) continue;
        state.seen_by_async[space].learn(state.knows);
        state.fenced_by_writer[space].learn(block, thread, state.knows.clock_of(thread));
    }
    state.knows.advance(thread);
}

/// Records both halves of a proxy fence for tensor maps. A copy sees a thread's change of its map if a release follows the
/// change, and an acquire, which knows of the release, comes before the copy.
/// Source: PTX ISA, "membar / fence: fence.proxy.tensormap".
void release_tensor_maps() {
    ThreadState& state = state_of(*current_thread);
    state.map_fences.release(state.knows);
    state.knows.advance(current_thread->linear);
}
void acquire_tensor_maps() { state_of(*current_thread).map_fences.acquire(); }

/// Learns what atomic operations have passed on. After a compare-and-swap without acquire order, which takes a lock, a
/// fence has to follow. Any other reading side counts as an acquire, because kernels put their fences on the writing side.
inline void acquire(const Passed& passed, bool acquires) {
    ThreadState& state = state_of(*current_thread);
    const bool needs_fence = state.swaps && !acquires;
    const auto learn = [&](const View& view, bool is_in_scope) {
        if (is_in_scope) state.learn_after(needs_fence, view);
        else learn_in(state.scope, needs_fence ? state.unfenced : state.knows, view.knows);
    };
    learn(passed.to_all, state.scope == Scope::device);
    const unsigned block = state_of(*current_thread->block).number;
    const auto of_block = passed.to_block.find(block);
    if (of_block != passed.to_block.end()) learn(of_block->second, true);
    if (passed.to_cluster.empty()) return;
    const auto of_cluster = passed.to_cluster.find(cluster_of(launches, block));
    if (of_cluster != passed.to_cluster.end()) learn(of_cluster->second, state.scope != Scope::block);
}

/// Passes on what the thread knows, or knew at its last fence.
inline void release(Passed& passed, bool releases) {
    const ThreadState& state = state_of(*current_thread);
    const unsigned block = state_of(*current_thread->block).number;
    const auto pass = [&](Scope scope, const View& view) {
        if (scope == Scope::device) passed.to_all.learn(view);
        else if (scope == Scope::cluster) passed.to_cluster[cluster_of(launches, block)].learn(view);
        else passed.to_block[block].learn(view);
    };
    if (releases) return pass(state.scope, state);
    for (const Scope fenced : {Scope::block, Scope::cluster, Scope::device}) {
        const View& view = state.released[number_of(fenced)];
        if (!view.is_empty()) pass(fenced < state.scope ? fenced : state.scope, view);
    }
}

inline bool has_fenced(const ThreadState& state) {
    for (const View& view : state.released) {
        if (!view.is_empty()) return true;
    }
    return false;
}

/// Records an atomic operation, or a volatile one, which kernels use to wait for flags that are written after fences.
inline void atomic_access(const void* address, size_t bytes, bool is_write, bool reads, bool acquires, bool releases,
                          Kind kind, unsigned where) {
    const Thread& thread = *current_thread;
    ThreadState& state = state_of(thread);
    access(address, bytes, is_write, reads, kind, where);
    // word by word: part of a larger write may be read, and adjacent flags carry different knowledge
    constexpr uintptr_t word_bytes = 4;
    const auto first = reinterpret_cast<uintptr_t>(address) & ~(word_bytes - 1);
    const uintptr_t end = reinterpret_cast<uintptr_t>(address) + bytes;
    for (uintptr_t word = first; word < end; word += word_bytes) {
        const auto known = atomics.find(reinterpret_cast<const void*>(word));
        if (known != atomics.end()) acquire(known->second, acquires);
    }
    if (!is_write || (!releases && !has_fenced(state))) return;
    for (uintptr_t word = first; word < end; word += word_bytes) {
        release(atomics[reinterpret_cast<const void*>(word)], releases);
    }
    if (releases) state.knows.advance(thread.linear);
}

// ---- launches and blocks

void begin_launch(dim3 grid, dim3 block, uint3 cluster, bool is_dependent) {
    const unsigned previous = launches++;
    const unsigned first_of_previous = previous ? launch_states[previous - 1].first_concurrent : 0;
    launch_states.push_back({grid, block, cluster, is_dependent ? first_of_previous : launches});
    meetings.clear();
    atomics.clear();
}

inline void blank(void* begin, size_t bytes) {
    if (bytes == 0) return;
    fill(begin, 0xff, bytes);
    shadow.clear(reinterpret_cast<uintptr_t>(begin), bytes);
}

/// Called when a static variable has been given its place in the running block's window.
void begin_variables(char* place, size_t bytes, const char* name) {
    check::add_region(place, bytes, check::Space::static_shared, name, true);
    blank(place, bytes);
}

inline bool is_in_window(const Block& block, const Region& region) {
    return region.begin - reinterpret_cast<uintptr_t>(block.window) < window_bytes;
}

/// Makes shared memory undefined when a block begins: fills it with NaN, and marks it as never written.
inline void blank_shared_memory(const Block& block) {
    const check::OwnMemory own = check::own_memory();
    // true for the first block of the launch that uses this window
    if (block.window_used == reserved_window_bytes + block.launch->dynamic_shared_bytes) {
        check::remove_regions(block.window, window_bytes);
    }
    const size_t dynamic_bytes = block.launch->dynamic_shared_bytes;
    check::add_region(block.dynamic_shared, dynamic_bytes, check::Space::dynamic_shared, "", true);
    check::add_region(own.shared, own.shared_bytes, check::Space::static_shared, "", true);
    blank(own.shared, own.shared_bytes);
    for (const Region& region : check::regions) {
        if (is_in_window(block, region)) blank(reinterpret_cast<void*>(region.begin), region.end - region.begin);
    }
}

void begin_block(Block& block) {
    auto* const state = new BlockState;
    state->number = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    state->threads.resize(block.thread_count);
    for (unsigned i = 0; i < block.thread_count; i++) {
        state->threads[i].knows.begin(state->number, i, block.thread_count);
    }
    block.race_state = state;
    if (!block.launch->cooperative && block.cluster->begun == 1) {
        meetings.clear();  // the next block's meeting objects have the same addresses as this block's
        std::erase_if(atomics, [](const auto& one) {
            const Region* region = check::region_of(reinterpret_cast<uintptr_t>(one.first));
            return region && region->starts_blank && region->space != check::Space::tensor;
        });
    }
    blank_shared_memory(block);
}

/// Deletes a block's state. After a cooperative launch, the block's shared memory disappears with its OS thread.
void end_block(Block& block) {
    check_mbarriers(block);
    check_products(block);
    delete static_cast<BlockState*>(block.race_state);
    block.race_state = nullptr;
    if (!block.launch->cooperative) return;
    const auto static_shared = reinterpret_cast<uintptr_t>(check::own_memory().shared);
    std::erase_if(check::regions, [&](const Region& region) {
        return region.begin == static_shared || is_in_window(block, region);
    });
}

void begin_thread(Thread& thread) {
    state_of(thread).calls.clear();
    state_of(thread).frames.clear();
}

/// Writes a finding if the launches have not written all of an output.
inline void report_unwritten(const Region& region) {
    size_t missing = 0;
    uintptr_t first = 0;
    shadow.for_each(region.begin, region.end - region.begin, [&](const Cell& cell, uintptr_t address, unsigned bytes) {
        if (cell.write.kind != none || cell.update.kind != none) return;
        if (missing == 0) first = address;
        missing += bytes;
    });
    if (missing == 0) return;
    check::Json json;
    json.text("kind", "unwritten").text("space", check::space_name(region.space)).text("name", region.name);
    json.number("offset", static_cast<long long>(first - region.begin));
    json.number("bytes", static_cast<long long>(missing));
    check::write_line(json);
}

}  // namespace tkjit::sim::race

namespace tkjit::sim {

void note_allocation(void* address, size_t bytes, bool starts_blank, Site site) {
    const std::string name = "memory allocated at " + std::string(site.file) + ":" + std::to_string(site.line);
    check::add_region(address, bytes, check::Space::tensor, name, starts_blank);
    race::shadow.clear(reinterpret_cast<uintptr_t>(address), bytes);
}
void note_free(void* address) {
    if (check::region_of(reinterpret_cast<uintptr_t>(address))) check::remove_regions(address, 1);
}

void wait_for_previous_launches() { race::state_of(*current_thread).knows_previous_launches = true; }

}  // namespace tkjit::sim
