// Barriers of a block: __syncthreads, its reductions, and PTX's named barriers.
#pragma once

namespace tkjit::sim {

/// Counts the running thread in, and checks that it means the same barrier as those before it.
inline Barrier& join_barrier(unsigned id, unsigned expected, Operation operation, bool predicate, Site site) {
    Barrier& barrier = current_thread->block->barriers[id];
    if (barrier.arrived == 0) {
        barrier.operation = operation;
        barrier.expected = expected;
    } else if (barrier.operation != operation || barrier.expected != expected) {
        fail(site, "barrier %u: %s of %u threads meets %s of %u threads (0: all)", id, operation_name(operation),
             expected, operation_name(barrier.operation), barrier.expected);
    }
    barrier.arrived++;
    barrier.true_predicates += predicate;
    return barrier;
}

inline bool is_complete(const Block& block, const Barrier& barrier) {
    return barrier.arrived >= (barrier.expected ? barrier.expected : block.thread_count - block.exited);
}

/// Returns the number of true predicates. The last thread to arrive goes on without a switch.
__attribute__((noinline)) inline unsigned arrive_and_wait(unsigned id, unsigned expected, Operation operation,
                                                          bool predicate, Site site) {
    Thread& thread = *current_thread;
    Block& block = *thread.block;
    Barrier& barrier = join_barrier(id, expected, operation, predicate, site);
    if (is_complete(block, barrier)) {
        release_barrier(block, barrier);
    } else {
        thread.next = nullptr;
        (barrier.first ? barrier.last->next : barrier.first) = &thread;
        barrier.last = &thread;
        wait_in(operation, site);
    }
    // Still this phase's: the next one cannot complete before this thread has arrived at it.
    return barrier.result;
}

inline void check_named_barrier(unsigned id, unsigned threads, Site site) {
    if (id >= named_barriers) fail(site, "named barrier %u does not exist: the numbers are 0 to 15", id);
    if (threads == 0 || threads % warp_threads) {
        fail(site, "named barrier %u of %u threads: the number must be a positive multiple of 32", id, threads);
    }
}

/// PTX `barrier.sync id, threads`: waits until `threads` threads have arrived.
inline void named_barrier_sync(unsigned id, unsigned threads, Site site = Site::here()) {
    check_named_barrier(id, threads, site);
    arrive_and_wait(id, threads, Operation::named_barrier, false, site);
}

/// PTX `barrier.arrive id, threads`: counts as arrived and goes on.
inline void named_barrier_arrive(unsigned id, unsigned threads, Site site = Site::here()) {
    check_named_barrier(id, threads, site);
    Block& block = *current_thread->block;
    Barrier& barrier = join_barrier(id, threads, Operation::named_barrier, false, site);
    if (is_complete(block, barrier)) release_barrier(block, barrier);
}

}  // namespace tkjit::sim

inline void __syncthreads(tkjit::sim::Site site = tkjit::sim::Site::here()) {
    tkjit::sim::arrive_and_wait(0, 0, tkjit::sim::Operation::syncthreads, false, site);
}

/// The number of threads whose predicate is not zero.
inline int __syncthreads_count(int predicate, tkjit::sim::Site site = tkjit::sim::Site::here()) {
    return tkjit::sim::arrive_and_wait(0, 0, tkjit::sim::Operation::syncthreads_count, predicate != 0, site);
}

inline int __syncthreads_and(int predicate, tkjit::sim::Site site = tkjit::sim::Site::here()) {
    return tkjit::sim::arrive_and_wait(0, 0, tkjit::sim::Operation::syncthreads_and, predicate == 0, site) == 0;
}

inline int __syncthreads_or(int predicate, tkjit::sim::Site site = tkjit::sim::Site::here()) {
    return tkjit::sim::arrive_and_wait(0, 0, tkjit::sim::Operation::syncthreads_or, predicate != 0, site) != 0;
}
