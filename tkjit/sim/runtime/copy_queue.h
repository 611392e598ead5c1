// A thread's asynchronous copies (`cp.async`), oldest first.
#pragma once

#include "../check/copies.h"
#include "../check/race.h"
#include "../detail/block.h"
#include "../detail/copy_queue.h"
#include "../detail/fault.h"
#include "../detail/site.h"
#include "scheduler.h"
#include "trace.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

namespace tkjit::sim {

void land_moved_copies(const Thread& thread);  // bulk_copies.h

struct PendingCopy {
    void* destination;
    const void* source;
    unsigned bytes;
    unsigned source_bytes;  // the rest of `bytes` is filled with zeros
    unsigned group;
    Site site;
    race::Moment issued;
};

void issue_copy(void* destination, const void* source, unsigned bytes, unsigned source_bytes, Site site) {
    const uintptr_t addresses = reinterpret_cast<uintptr_t>(destination) | reinterpret_cast<uintptr_t>(source);
    if (addresses % bytes) fail(site, "cp.async of %u bytes: both addresses must be multiples of %u", bytes, bytes);
    if (source_bytes > bytes) fail(site, "cp.async of %u bytes cannot read %u", bytes, source_bytes);
    if (!check::may_copy(destination, bytes, source, source_bytes, site)) return;
    CopyQueue& queue = current_thread->copies;
    if (queue.count == queue.capacity) {
        const unsigned capacity = queue.capacity ? 2 * queue.capacity : 16;
        void* grown = realloc(queue.copies, capacity * sizeof(PendingCopy));
        if (grown == nullptr) fail(site, "out of memory for pending copies");
        queue.copies = static_cast<PendingCopy*>(grown);
        queue.capacity = capacity;
    }
    if (queue.count == 0) queue.committed_groups = 0;
    race::read(source, source_bytes, site);
    const race::Moment issued = race::pending(race::Copier::loads, destination, bytes, site);
    race::read_by_copy(source, source_bytes, issued);
    queue.copies[queue.count++] = {destination, source, bytes, source_bytes, queue.committed_groups, site, issued};
}

void commit_copies() {
    CopyQueue& queue = current_thread->copies;
    if (queue.count) queue.committed_groups++;
    give_way();
}

inline void land_copy(const PendingCopy& copy) {
    race::move(copy.destination, copy.source, copy.source_bytes);
    race::fill(static_cast<char*>(copy.destination) + copy.source_bytes, 0, copy.bytes - copy.source_bytes);
    race::landed(copy.destination, copy.bytes, race::landing_of(copy.issued));
    race::finish(copy.issued);
    if (traced()) trace(copy.site, "a copy of %u bytes to %p lands", copy.bytes, copy.destination);
}

/// Lands the oldest copies: those that belong to groups before `first_pending_group`.
inline void land_copies_before(CopyQueue& queue, unsigned first_pending_group) {
    unsigned landed = 0;
    while (landed < queue.count && queue.copies[landed].group < first_pending_group) land_copy(queue.copies[landed++]);
    queue.count -= landed;
    memmove(queue.copies, queue.copies + landed, queue.count * sizeof(PendingCopy));
}

/// Called when a thread exits.
void land_all_copies(CopyQueue& queue) {
    for (unsigned i = 0; i < queue.count; i++) land_copy(queue.copies[i]);
    queue.count = 0;
}

void wait_for_all_copies() {
    land_moved_copies(*current_thread);
    land_all_copies(current_thread->copies);
}

void wait_for_copies(unsigned pending_groups) {
    land_moved_copies(*current_thread);
    CopyQueue& queue = current_thread->copies;
    if (queue.count == 0 || queue.committed_groups <= pending_groups) return;
    land_copies_before(queue, queue.committed_groups - pending_groups);
}

}  // namespace tkjit::sim
