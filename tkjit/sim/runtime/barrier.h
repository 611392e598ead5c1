// A block's barriers: __syncthreads, its reductions, and PTX's named barriers.
#pragma once

#include "../check/race.h"
#include "../detail/barrier.h"
#include "../detail/block.h"
#include "../detail/fault.h"
#include "../detail/site.h"
#include "launch_state.h"
#include "scheduler.h"
#include "trace.h"

namespace tkjit::sim {

/// Checks that the lanes of a warp reach the barrier at the same place; different warps may be at different ones. Source: PTX
/// ISA, "barrier": with `.aligned`, all threads in a warp must execute the same instruction.
__attribute__((noinline)) inline void check_warp_is_together(const Barrier& barrier, Operation operation, Site site) {
    const unsigned warp = current_thread->linear / warp_threads;
    for (const Thread* other = barrier.first; other; other = other->next) {
        if (other->linear / warp_threads != warp || is_same_place(other->site, site)) continue;
        if (is_same_line(other->site, site)) {
            fail(site, "divergent barrier: lanes of one warp reach %s from two places on this line",
                 operation_name(operation));
        }
        fail(site, "divergent barrier: lanes of one warp reach %s from here and from %s:%d", operation_name(operation),
             other->site.file, other->site.line);
    }
}

/// Counts the running thread as arrived, and checks that it executes the same barrier as the threads before it.
inline Barrier& join_barrier(unsigned id, unsigned expected, Operation operation, bool predicate, Site site) {
    Barrier& barrier = current_thread->block->barriers[id];
    if (barrier.arrived == 0) {
        barrier.operation = operation;
        barrier.expected = expected;
        barrier.is_mixed = false;
        barrier.site = site;
    } else if (barrier.operation != operation || barrier.expected != expected) {
        fail(site, "barrier %u: %s of %u threads meets %s of %u threads (0: all)", id, operation_name(operation),
             expected, operation_name(barrier.operation), barrier.expected);
    }
    // usually all threads come from one place, and there is nothing to check
    if (id == 0 && (barrier.is_mixed || !is_same_place(barrier.site, site)) && operation != Operation::named_barrier) {
        check_warp_is_together(barrier, operation, site);
        barrier.is_mixed = true;
        if (!is_same_place(barrier.site, site)) race::note_places(barrier, site);
    }
    if (operation == Operation::named_barrier) race::note_named(barrier);
    barrier.arrived++;
    barrier.true_predicates += predicate;
    race::arrive(&barrier);
    return barrier;
}

inline bool is_complete(const Block& block, const Barrier& barrier) {
    return barrier.arrived >= (barrier.expected ? barrier.expected : block.thread_count - block.exited);
}

/// Waits at a barrier. The last thread to arrive continues without a switch.
__attribute__((noinline)) unsigned arrive_and_wait(unsigned id, unsigned expected, Operation operation, bool predicate,
                                                   Site site) {
    Thread& thread = *current_thread;
    Block& block = *thread.block;
    Barrier& barrier = join_barrier(id, expected, operation, predicate, site);
    if (is_complete(block, barrier)) {
        if (traced()) trace(site, "%s completes, %u threads", operation_name(operation), barrier.arrived);
        release_barrier(block, barrier);
        give_way();
    } else {
        thread.next = nullptr;
        (barrier.first ? barrier.last->next : barrier.first) = &thread;
        barrier.last = &thread;
        wait_in(operation, site);
    }
    race::leave(&barrier);
    // The result still belongs to this phase, because the next one cannot complete before this thread arrives at it.
    return barrier.result;
}

inline void check_named_barrier(unsigned id, unsigned threads, Site site) {
    if (id >= named_barriers) fail(site, "named barrier %u does not exist: the numbers are 0 to 15", id);
    if (threads == 0 || threads % warp_threads) {
        fail(site, "named barrier %u of %u threads: the number must be a positive multiple of 32", id, threads);
    }
}

void named_barrier_sync(unsigned id, unsigned threads, Site site, bool is_aligned) {
    check_named_barrier(id, threads, site);
    // only in the checker, because each thread compares itself with all waiting ones
    const Barrier& barrier = current_thread->block->barriers[id];
    if (is_aligned && one_at_a_time && barrier.arrived) check_warp_is_together(barrier, Operation::named_barrier, site);
    arrive_and_wait(id, threads, Operation::named_barrier, false, site);
}

void named_barrier_arrive(unsigned id, unsigned threads, Site site) {
    check_named_barrier(id, threads, site);
    Block& block = *current_thread->block;
    Barrier& barrier = join_barrier(id, threads, Operation::named_barrier, false, site);
    if (is_complete(block, barrier)) release_barrier(block, barrier);
    give_way();
}

/// Waits at the grid's barrier. A block's last thread to arrive stops the OS thread until the other blocks have
/// arrived.
void sync_grid(Site site) {
    Thread& thread = *current_thread;
    Block& block = *thread.block;
    if (!block.launch->cooperative) {
        fail(site, "a sync of the grid needs a cooperative launch: set cooperative=True in the spec");
    }
    Barrier& barrier = join_barrier(0, 0, Operation::grid_sync, false, site);
    if (is_complete(block, barrier)) {
        race::complete(&barrier);  // this thread learns what the block's other threads know, to pass it on to the grid
        race::leave(&barrier);
        wait_for_grid(block, site);
        release_barrier(block, barrier);
    } else {
        thread.next = nullptr;
        (barrier.first ? barrier.last->next : barrier.first) = &thread;
        barrier.last = &thread;
        wait_in(Operation::grid_sync, site);
    }
    race::leave(&barrier);
}

}  // namespace tkjit::sim
