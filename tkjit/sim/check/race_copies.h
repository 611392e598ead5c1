// Asynchronous copies. The race detector treats each as a separate thread, which may access its memory until another
// thread has waited for it.
#pragma once

#include "../detail/block.h"
#include "../detail/site.h"
#include "race.h"
#include "race_accesses.h"
#include "race_state.h"
#include "regions.h"
#include "shadow.h"

#include <stddef.h>
#include <stdint.h>

#include <vector>

namespace tkjit::sim::race {

/// Called when the running thread has waited for its own copy, which now counts as a write by this thread.
Moment landing_of(const Moment& issued) {
    const Access access = access_of(*current_thread, plain, issued.where);
    return {access.launch, access.block, access.thread, access.clock, access.where};
}

inline Access access_of(const Moment& moment, Kind kind) {
    return {moment.launch, moment.block, moment.clock, moment.where, static_cast<unsigned short>(moment.thread), kind};
}

/// A copy counts as the work of another thread, which is numbered after the block's threads and has its own clock. Only
/// threads that have waited for the copy know about it; the thread that issued the copy does not yet know.
inline unsigned numbered(Copier copier, const Thread& thread) {
    return (1 + static_cast<unsigned>(copier)) * thread.block->thread_count + thread.linear;
}

inline Moment begin(Copier copier, const Thread& thread, Site site) {
    unsigned& clock = state_of(thread).copies[static_cast<unsigned>(copier)];
    return {launches, state_of(*thread.block).number, numbered(copier, thread), ++clock, place_of(site)};
}

Moment begin_copy(Copier copier, Site site) { return begin(copier, *current_thread, site); }

Moment pending(Copier copier, const void* destination, size_t bytes, Site site) {
    const Moment issued = begin_copy(copier, site);
    write_meanwhile(destination, bytes, issued);
    return issued;
}

void read_meanwhile(const void* source, size_t bytes, const Moment& issued) {
    access(source, bytes, false, true, access_of(issued, asynchronous));
}

void read_tensor_map(const void* map, size_t bytes, Site site) {
    access(map, bytes, false, true, map_read, place_of(site));
}

void read_by_copy(const void* source, size_t bytes, const Moment& issued) {
    access(source, bytes, false, true, access_of(issued, plain));
}

void write_meanwhile(const void* destination, size_t bytes, const Moment& issued) {
    access(destination, bytes, true, false, access_of(issued, pending_copy));
}

void update_meanwhile(const void* destination, size_t bytes, const Moment& issued) {
    access(destination, bytes, true, true, access_of(issued, atomic));
}

void finish(const Moment& issued) {
    state_of(*current_thread).knows.learn(issued.block, issued.thread, issued.clock);
}

void commit_stores() {
    ThreadState& state = state_of(*current_thread);
    state.store_groups.push_back(state.copies[static_cast<unsigned>(Copier::store_writes)]);
}

void finish_store_writes(unsigned pending_groups) {
    const Thread& thread = *current_thread;
    std::vector<unsigned>& groups = state_of(thread).store_groups;
    if (groups.size() <= pending_groups) return;
    const auto over = groups.end() - pending_groups;
    finish({launches, state_of(*thread.block).number, numbered(Copier::store_writes, thread), over[-1], 0});
    groups.erase(groups.begin(), over);
}

void landed(const void* destination, size_t bytes, const Moment& moment) {
    const auto address = reinterpret_cast<uintptr_t>(destination);
    if (check::region_of(address) == nullptr) return;
    shadow.for_each(address, bytes, [&](Cell& cell, uintptr_t, unsigned) {
        if (cell.write.kind != pending_copy) return;
        cell.write = access_of(moment, asynchronous);
    });
}

}  // namespace tkjit::sim::race
