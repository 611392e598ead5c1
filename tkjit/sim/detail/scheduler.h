// Which fiber of a block runs next: ready ones first, in the order in which they became ready, then new ones.
//
// A CUDA thread gets a fiber only when it first waits. Until then it borrows the stack of the thread before it, so that
// a kernel without a barrier costs a plain loop over its threads.
#pragma once

namespace tkjit::sim {

void fiber_main();
void land_all_copies(CopyQueue& queue);  // copy_queue.h
void tick(Block& block);                 // launch.h

/// Counts barriers, exits and collectives; now and then `tick` looks at the clock and at the other workers.
inline void count_event(Block& block) {
    block.progress++;
    if (--block.events_until_tick == 0) tick(block);
}

inline void push_ready(Block& block, Thread& thread) {
    thread.next = nullptr;
    (block.ready_first ? block.ready_last->next : block.ready_first) = &thread;
    block.ready_last = &thread;
}

/// Moves a barrier's whole list, already linked, behind the ready queue.
inline void push_ready_list(Block& block, Thread* first, Thread* last) {
    if (first == nullptr) return;
    (block.ready_first ? block.ready_last->next : block.ready_first) = first;
    block.ready_last = last;
}

inline Thread& pop_ready(Block& block) {
    Thread& thread = *block.ready_first;
    block.ready_first = thread.next;
    return thread;
}

inline void resume(Context& from, Thread& to) {
    current_thread = &to;
    threadIdx = to.index;
    switch_context(from, to.context);
}

/// Starts the next CUDA thread on a stack of its own; `from` goes on when somebody resumes it.
inline void start_fiber(Context& from, Block& block) {
    Stack* stack = block.free_stacks;
    if (stack) {
        block.free_stacks = stack->next_free;
    } else {
        stack = &block.stacks[block.stack_count];
        if (!map_stack(*stack, block.stack_count)) {
            if (claim_fault(*block.launch)) {
                ErrorText(block.launch->error_text).append("out of memory for the stacks of a block's threads");
            }
            abandon_block(block);
        }
        block.stack_count++;
    }
    block.starting_stack = stack;
    start_context(block.starting, *stack, fiber_main);
    switch_context(from, block.starting);
}

/// Stops the running thread until somebody has pushed it to the ready queue and its turn comes. Not inlined: with one
/// place of switching, the processor's prediction of its return is right.
__attribute__((noinline)) inline void suspend() {
    Thread& thread = *current_thread;
    Block& block = *thread.block;
    if (block.ready_first) {
        Thread& next = pop_ready(block);
        if (&next != &thread) resume(thread.context, next);
    } else if (block.started < block.thread_count) {
        start_fiber(thread.context, block);
    } else {
        fail_deadlock(block);
    }
}

inline void wait_in(Operation operation, Site site) {
    Thread& thread = *current_thread;
    thread.waiting_in = operation;
    thread.site = site;
    suspend();
    thread.waiting_in = Operation::none;
}

/// Lets every other ready thread of the block run once, and starts one more if there is one to start. Leaves a launch
/// that has failed elsewhere: what this thread waits for may never come.
inline void yield() {
    Thread& thread = *current_thread;
    Block& block = *thread.block;
    if (launch_failed(*block.launch)) abandon_block(block);
    push_ready(block, thread);
    if (block.started < block.thread_count) {
        start_fiber(thread.context, block);
    } else {
        suspend();
    }
}

/// Waits until `condition()` holds, where another thread of the same block makes it hold: for mbarriers and the like.
/// A deadlock is reported when the block's progress count stands still while everybody was asked several times.
template <class Condition>
void wait_until(Condition condition, Site site = Site::here()) {
    constexpr int vain_polls_allowed = 16;
    Thread& thread = *current_thread;
    Block& block = *thread.block;
    unsigned long long progress = block.progress;
    for (int vain_polls = 0; !condition(); vain_polls++) {
        if (progress != block.progress) {
            progress = block.progress;
            vain_polls = 0;
        }
        thread.waiting_in = Operation::poll;
        thread.site = site;
        if (vain_polls > vain_polls_allowed) fail_deadlock(block);
        yield();
        thread.waiting_in = Operation::none;
    }
}

/// For loops that wait for something the scheduler does not know of: a lock, a flag.
__attribute__((noinline)) inline void yield_in_spin(Site site) {
    Thread& thread = *current_thread;
    thread.waiting_in = Operation::spin;
    thread.site = site;
    yield();
    thread.waiting_in = Operation::none;
}

inline void release_barrier(Block& block, Barrier& barrier) {
    barrier.result = barrier.true_predicates;
    barrier.true_predicates = 0;
    barrier.arrived = 0;
    push_ready_list(block, barrier.first, barrier.last);
    barrier.first = nullptr;
    count_event(block);
}

inline Thread& begin_thread(Block& block, Stack& stack) {
    Thread& thread = block.threads[block.started];
    thread.index = block.next_index;
    thread.linear = block.started++;
    block.progress++;
    thread.block = &block;
    thread.stack = &stack;
    thread.waiting_in = Operation::none;
    thread.exited = false;
    if (++block.next_index.x == blockDim.x) {
        block.next_index.x = 0;
        if (++block.next_index.y == blockDim.y) {
            block.next_index.y = 0;
            ++block.next_index.z;
        }
    }
    current_thread = &thread;
    threadIdx = thread.index;
    return thread;
}

/// Other lanes wait for one that has now exited: their operation can never complete.
[[noreturn]] __attribute__((noinline, cold)) inline void fail_exited_lane(Thread& exited,
                                                                          const Collective& collective) {
    const unsigned warp_start = exited.linear - lane_of(exited);
    const unsigned waiting_lane = __builtin_ctz(collective.arrived);
    current_thread = &exited.block->threads[warp_start + waiting_lane];
    fail(current_thread->site, "%s with mask 0x%08x waits for lane %u, thread (%u, %u, %u), which has exited",
         operation_name(collective.operation), collective.mask, lane_of(exited), exited.index.x, exited.index.y,
         exited.index.z);
}

inline void end_thread(Thread& thread) {
    Block& block = *thread.block;
    Warp& warp = warp_of(thread);
    const unsigned lane_bit = 1u << lane_of(thread);
    thread.exited = true;
    block.exited++;
    warp.alive &= ~lane_bit;
    if (thread.copies.count) land_all_copies(thread.copies);
    if (warp.waiting) {
        for (const Collective& collective : warp.collectives) {
            if (collective.arrived && (collective.mask & lane_bit)) fail_exited_lane(thread, collective);
        }
    }
    // An exited thread counts as arrived at __syncthreads, as on devices.
    Barrier& barrier = block.barriers[0];
    if (barrier.arrived && barrier.expected == 0 && barrier.arrived >= block.thread_count - block.exited) {
        release_barrier(block, barrier);
    }
    count_event(block);
}

/// The first function of every fiber: runs CUDA threads on its stack until one of them has waited and another is ready.
inline void fiber_main() {
    Block& block = *current_block;
    Stack& stack = *block.starting_stack;
    for (;;) {
        Thread& thread = begin_thread(block, stack);
        block.launch->run_thread(block.launch->body);
        end_thread(thread);
        if (block.ready_first == nullptr && block.started < block.thread_count) continue;
        if (block.ready_first == nullptr && block.exited < block.thread_count) fail_deadlock(block);
        stack.next_free = block.free_stacks;
        block.free_stacks = &stack;
        if (block.ready_first) {
            resume(thread.context, pop_ready(block));
        } else {
            switch_context(thread.context, block.host);
        }
    }
}

/// Gives back what an abandoned block's fibers held.
inline void reset_after_fault(Block& block) {
    block.abandoned = false;
    block.ready_first = nullptr;
    block.free_stacks = nullptr;
    for (unsigned i = 0; i < block.stack_count; i++) {
        block.stacks[i].next_free = block.free_stacks;
        block.free_stacks = &block.stacks[i];
    }
    for (unsigned i = 0; i < block.thread_count; i++) block.threads[i].copies.count = 0;
    memset(block.warps, 0, sizeof(block.warps));
    memset(block.barriers, 0, sizeof(block.barriers));
}

/// Runs one block of the grid on the calling OS thread.
inline void run_block(Block& block, unsigned long long linear_block) {
    const uint3 grid = block.launch->grid;
    blockIdx.x = static_cast<unsigned>(linear_block % grid.x);
    blockIdx.y = static_cast<unsigned>(linear_block / grid.x % grid.y);
    blockIdx.z = static_cast<unsigned>(linear_block / grid.x / grid.y);
    block.started = 0;
    block.exited = 0;
    block.next_index = {0, 0, 0};
    for (unsigned first = 0; first < block.thread_count; first += warp_threads) {
        const unsigned lanes = block.thread_count - first;
        block.warps[first / warp_threads].alive = lanes >= warp_threads ? ~0u : (1u << lanes) - 1;
    }
    start_fiber(block.host, block);
    current_thread = nullptr;
    if (block.abandoned) reset_after_fault(block);
}

}  // namespace tkjit::sim
