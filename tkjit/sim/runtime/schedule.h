// The order in which a block's threads run when there is a choice. A device guarantees none, so the checker tries
// several orders (see check/). All other builds have only first in, first out, which costs nothing.
#pragma once

#include "../detail/block.h"

#ifdef TKJIT_SIM_CHECKED
#include <algorithm>
#endif

namespace tkjit::sim::schedule {

#ifdef TKJIT_SIM_CHECKED

enum class Order {
    forward,      // in the order of their numbers, and then in the order in which they become ready
    reverse,      // the opposite
    random,       // from the seed
    adversarial,  // each warp runs as far as it can before another one does; the seed decides which goes first
};

inline Order order = Order::forward;
#ifdef TKJIT_SIM_OVERFLOW
inline bool runs_last_block = true;  // of the grid, and no other; else the middle one
inline unsigned launches = 0;        // that have begun
#endif
inline unsigned long long state = 88172645463325252ull;
inline unsigned starting[max_threads_per_block];   // the threads of a block, in the order in which they start
inline unsigned priority[max_warps_per_block];

/// Source: Marsaglia, "Xorshift RNGs".
inline unsigned random_number() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<unsigned>(state >> 11);
}

inline unsigned any_of(unsigned count) {
    if (count < 2 || order == Order::forward) return 0;
    return order == Order::reverse ? count - 1 : random_number() % count;
}

inline void begin_block(unsigned threads) {
    for (unsigned i = 0; i < threads; i++) starting[i] = order == Order::reverse ? threads - 1 - i : i;
    for (unsigned& each : priority) each = random_number() | 1;
    if (order == Order::adversarial) {
        const auto goes_first = [](unsigned a, unsigned b) {
            return priority[a / warp_threads] > priority[b / warp_threads];
        };
        std::stable_sort(starting, starting + threads, goes_first);
    }
    if (order != Order::random) return;
    for (unsigned i = threads; i-- > 1;) {
        const unsigned other = random_number() % (i + 1), own = starting[i];
        starting[i] = starting[other];
        starting[other] = own;
    }
}

inline unsigned start(unsigned started) { return starting[started]; }

// The order of a launch's blocks: the n-th is block (n * stride + first_block) % blocks of the grid.
inline unsigned long long blocks, stride, first_block;

inline unsigned long long greatest_common_divisor(unsigned long long a, unsigned long long b) {
    while (b) {
        const unsigned long long rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

inline void begin_launch(unsigned long long block_count) {
    blocks = block_count;
    stride = order == Order::reverse ? blocks - 1 : 1;
    first_block = order == Order::reverse ? blocks - 1 : 0;
    if (order != Order::random && order != Order::adversarial) return;
    first_block = random_number() % blocks;
    do stride = random_number() % blocks + 1;
    while (greatest_common_divisor(stride, blocks) != 1);
}

/// Returns the block of the grid that is the `number`-th to run.
inline unsigned long long block_at(unsigned long long number) { return (number * stride + first_block) % blocks; }

/// Returns whether a thread that completes a barrier lets others run before it continues.
inline bool gives_way() { return order != Order::forward; }

/// Returns whether a thread is waiting in a loop, and nothing has happened since it last polled, so that polling again
/// is pointless. A thread that a barrier has released does not count, because its `waiting_in` is still the barrier.
inline bool polls(const Thread& thread) {
    if (thread.polled_at != thread.block->progress) return false;
    switch (thread.waiting_in) {
        case Operation::spin:
        case Operation::activemask:
        case Operation::mbarrier: return true;
        default: return false;
    }
}

/// Chooses the next ready thread: one that does not poll or, if all do, the one that has not polled for the longest
/// time.
inline unsigned choose_ready(const Block& block) {
    unsigned ready = 0, best_priority = 0, best = 0, place = 0;
    for (const Thread* thread = block.ready_first; thread; thread = thread->next) ready += !polls(*thread);
    unsigned wanted = any_of(ready), seen = 0;
    for (const Thread* thread = block.ready_first; thread; thread = thread->next, place++) {
        if (polls(*thread)) continue;
        if (order != Order::adversarial) {
            if (seen++ == wanted) return place;
        } else if (const unsigned own = priority[thread->linear / warp_threads]; own > best_priority) {
            best_priority = own;
            best = place;
        }
    }
    return best;
}

/// Takes the next thread out of the ready queue, which is not empty.
inline Thread& take_ready(Block& block) {
    Thread* before = nullptr;
    for (unsigned skipped = order == Order::forward ? 0 : choose_ready(block); skipped--;) {
        before = before ? before->next : block.ready_first;
    }
    Thread& taken = before ? *before->next : *block.ready_first;
    (before ? before->next : block.ready_first) = taken.next;
    if (block.ready_last == &taken) block.ready_last = before;
    return taken;
}

#else

inline unsigned any_of(unsigned) { return 0; }
inline void begin_launch(unsigned long long) {}
inline unsigned long long block_at(unsigned long long number) { return number; }
inline void begin_block(unsigned) {}
inline unsigned start(unsigned started) { return started; }
inline bool gives_way() { return false; }

inline Thread& take_ready(Block& block) {
    Thread& thread = *block.ready_first;
    block.ready_first = thread.next;
    return thread;
}

#endif

}  // namespace tkjit::sim::schedule
