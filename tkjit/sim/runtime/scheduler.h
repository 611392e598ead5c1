// Decides which fiber of a block runs next: ready ones first, in the order in which they became ready, then new ones.
//
// A CUDA thread gets its own fiber only when it first waits. Until then it borrows the stack of the thread before it,
// so a kernel without a barrier costs only a plain loop over its threads, most of which begin in rows (detail/block.h).
#pragma once

#include "../check/race.h"
#include "../detail/block.h"
#include "../detail/copy_queue.h"
#include "../detail/scheduler.h"
#include "../detail/site.h"
#include "../detail/vector_types.h"
#include "fault.h"
#include "fiber.h"
#include "launch_state.h"
#include "schedule.h"

#include <string.h>

namespace tkjit::sim {

void fiber_main();                               // fiber_main.h
void tick(Block& block);                         // launch.h
void note_spin(Block& block);                    // launch.h
void note_change(Launch& launch);                // workers.h
bool is_interrupted(Block& block);               // launch.h
void land_bulk_stores_of(const Thread& thread);  // bulk_copies.h
void end_bulk_copies(Block& block);              // bulk_copies.h
void check_registers(Block& block);              // registers.h
void check_tensor_memory_is_free(Block& block);  // tensor_memory.h
void clear_tensor_memory(Block& block);          // tensor_memory.h
void wait_for_grid(Block& block, Site site);     // cooperative.h
void clear_bulk_copies(Block& block);            // bulk_copies.h
bool land_for_waiters(Block& block);             // bulk_copies.h
void leave_cluster(const Thread& exited);        // cluster.h

/// Records whether a block has done nothing but wait for a long time.
inline void set_in_vain(Block& block, bool in_vain) {
    if (block.spins_in_vain == in_vain) return;
    block.spins_in_vain = in_vain;
    if (!in_vain) note_change(*block.launch);
    __atomic_fetch_add(&block.launch->in_vain, in_vain ? 1 : -1, __ATOMIC_RELAXED);
}

/// Counts barriers, exits and collectives; now and then `tick` looks at the clock and at the other workers.
inline void count_event(Block& block) {
    block.progress++;
    if (__builtin_expect(block.spins_in_vain, false)) set_in_vain(block, false);
    if (--block.events_until_tick == 0) tick(block);
}

void push_ready(Block& block, Thread& thread) {
    thread.next = nullptr;
    (block.ready_first ? block.ready_last->next : block.ready_first) = &thread;
    block.ready_last = &thread;
}

/// Appends a barrier's whole list, which is already linked, to the ready queue.
inline void push_ready_list(Block& block, Thread* first, Thread* last) {
    if (first == nullptr) return;
    (block.ready_first ? block.ready_last->next : block.ready_first) = first;
    block.ready_last = last;
}

inline void resume(Context& from, Thread& to) {
    current_thread = &to;
    threadIdx = to.index;
    switch_context(from, to.context, to.stack);
}

/// Starts the next CUDA thread on a free stack; `from` continues when it is resumed.
inline void start_fiber(Context& from, Block& block) {
    Stack* stack = block.free_stacks;
    if (stack) {
        block.free_stacks = stack->next_free;
    } else {
        stack = add_stack(block);
        if (stack == nullptr) {
            if (claim_fault(*block.launch)) {
                ErrorText(block.launch->error_text).append("out of memory for the stacks of a block's threads");
            }
            abandon_block(block);
        }
    }
    block.starting_stack = stack;
    start_context(block.starting, *stack, fiber_main);
    switch_context(from, block.starting, stack);
}

/// Lets the OS thread run other blocks, because this one waits for them.
inline void park(Block& block) {
    Thread& thread = *current_thread;
    block.parked = &thread;
    switch_context(thread.context, block.host, nullptr);
}

/// Called when no thread of the block can continue: only the cluster's other blocks can change that.
inline void wait_for_cluster(Block& block) {
    if (block.cluster->count == 1 || block.cluster->is_stuck) fail_deadlock(block);
    park(block);
}

/// Not inlined, because the processor predicts the return correctly if all switches are at one place.
__attribute__((noinline)) inline void suspend() {
    Thread& thread = *current_thread;
    Block& block = *thread.block;
    for (;;) {
        while (block.ready_first == nullptr && block.started == block.thread_count && land_for_waiters(block)) {
        }
        if (block.ready_first) {
            Thread& next = schedule::take_ready(block);
            if (&next != &thread) resume(thread.context, next);
            return;
        }
        if (block.started < block.thread_count) return start_fiber(thread.context, block);
        wait_for_cluster(block);
    }
}

void wait_in(Operation operation, Site site) {
    Thread& thread = *current_thread;
    thread.waiting_in = operation;
    thread.site = site;
    suspend();
    thread.waiting_in = Operation::none;
}

void yield() {
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

__attribute__((noinline)) void yield_in_poll(Operation operation, Site site) {
    Thread& thread = *current_thread;
    thread.waiting_in = operation;
    thread.site = site;
    note_spin(*thread.block);
    constexpr unsigned spins_before_landing = 16;
    if (thread.block->vain_spins % spins_before_landing == 0) land_for_waiters(*thread.block);
    thread.polled_at = thread.block->progress;
    yield();
    thread.waiting_in = Operation::none;
}

/// Called where a thread need not wait, but other threads could get ahead of it on a device. Lets them run only in the
/// orders with which the checker looks for errors.
inline void give_way() {
    if (schedule::gives_way()) yield();
}

/// Switches to the OS thread's own stack to check for an interruption, because the check calls Python, which verifies
/// its stack.
inline void visit_host(Block& block) {
    Thread& thread = *current_thread;
    block.visitor = &thread;
    switch_context(thread.context, block.host, nullptr);
}

inline void release_barrier(Block& block, Barrier& barrier) {
    race::check_participants(block, barrier);
    barrier.result = barrier.true_predicates;
    barrier.true_predicates = 0;
    barrier.arrived = 0;
    race::complete(&barrier);
    push_ready_list(block, barrier.first, barrier.last);
    barrier.first = nullptr;
    count_event(block);
}

/// Makes a thread the running one.
inline void begin_on(Stack& stack, Thread& thread) {
    thread.stack = &stack;
    thread.waiting_in = Operation::none;
    thread.exited = false;
    thread.needs_whole_group = false;
    thread.cluster_ticket = 0;
    current_thread = &thread;
}

#if defined(TKJIT_SIM_CHECKED) || defined(TKJIT_SIM_WITHOUT_ROWS)
inline void begin_row(Block&, const Thread&) {}
#else
/// Lets threads follow the running one in a row if nobody could be waiting for them. The row ends when `tick` is due.
inline void begin_row(Block& block, const Thread& thread) {
    if (block.started != block.exited + 1 || block.cluster != &block.alone || block.alone.arrived) return;
    const unsigned left_in_row = blockDim.x - 1 - thread.index.x, left_until_tick = block.events_until_tick - 1;
    current_thread.begin_row(left_in_row < left_until_tick ? left_in_row : left_until_tick);
}
#endif

inline Thread& begin_thread(Block& block, Stack& stack) {
    Thread& thread = block.threads[schedule::start(block.started++)];
    block.progress++;
    begin_on(stack, thread);
    threadIdx = thread.index;
    begin_row(block, thread);
    race::begin_thread(thread);
    return thread;
}

void settle_row() {
    Thread& first = *current_thread.thread_;
    Block& block = *first.block;
    const unsigned ended = threadIdx.x - first.index.x;
    for (Thread* thread = &first; thread != &first + ended; thread++) {
        thread->exited = true;
        warp_of(*thread).alive &= ~(1u << lane_of(*thread));
    }
    block.started += ended;
    block.exited += ended;
    block.progress += ended;
    block.events_until_tick -= ended;
    begin_on(*first.stack, (&first)[ended]);
}

/// Fails because other lanes are waiting for a lane that has just exited, so their operation can never complete.
[[noreturn]] __attribute__((noinline, cold)) inline void fail_exited_lane(Thread& exited,
                                                                          const Collective& collective) {
    const unsigned warp_start = exited.linear - lane_of(exited);
    const unsigned waiting_lane = __builtin_ctz(collective.arrived);
    current_thread = &exited.block->threads[warp_start + waiting_lane];
    fail(current_thread->site, "%s with mask 0x%08x waits for lane %u, thread (%u, %u, %u), which has exited",
         operation_name(collective.operation), collective.mask, lane_of(exited), exited.index.x, exited.index.y,
         exited.index.z);
}

void leave_collectives(Thread& exited);  // warp.h

inline void end_thread(Thread& thread) {
    Block& block = *thread.block;
    Warp& warp = warp_of(thread);
    const unsigned lane_bit = 1u << lane_of(thread);
    thread.exited = true;
    block.exited++;
    warp.alive &= ~lane_bit;
    if (thread.copies.count) land_all_copies(thread.copies);
    if (block.bulk_copies) land_bulk_stores_of(thread);
    if (warp.waiting) leave_collectives(thread);
    // the call would be a tenth of the cost of a short thread
    if (block.cluster != &block.alone || block.alone.arrived) leave_cluster(thread);
    // An exited thread counts as arrived at __syncthreads, as on devices.
    Barrier& barrier = block.barriers[0];
    race::arrive(&barrier);
    if (barrier.arrived && barrier.expected == 0 && barrier.arrived >= block.thread_count - block.exited) {
        if (barrier.operation == Operation::grid_sync) {  // the block is complete; now it waits for the others
            race::complete(&barrier);
            race::leave(&barrier);
            wait_for_grid(block, barrier.site);
        }
        release_barrier(block, barrier);
    }
    count_event(block);
}

/// Releases the resources that an abandoned block's fibers held.
inline void reset_after_fault(Block& block) {
    block.abandoned = false;
    block.error_code = 0;
    block.parked = nullptr;
    block.ready_first = nullptr;
    block.mbarrier_waiters = nullptr;
    block.free_stacks = nullptr;
    for (unsigned i = 0; i < block.stack_count; i++) {
        renew_stack(block.stacks[i]);
        block.stacks[i].next_free = block.free_stacks;
        block.free_stacks = &block.stacks[i];
    }
    for (unsigned i = 0; i < block.thread_count; i++) block.threads[i].copies.count = 0;
    clear_bulk_copies(block);
    if (block.tensor_memory) clear_tensor_memory(block);
    block.fault = {};
    block.thrown_at = nullptr;
    memset(block.warps, 0, sizeof(block.warps));
    memset(block.barriers, 0, sizeof(block.barriers));
    memset(block.warpgroups, 0, sizeof(block.warpgroups));
}

/// Called on the OS thread's stack when a block's threads have left it. Returns false if the block is parked.
inline bool end_unless_parked(Block& block) {
    while (Thread* const visitor = block.visitor) {
        block.visitor = nullptr;
        if (is_interrupted(block)) break;
        resume(block.host, *visitor);
    }
    if (block.parked) return false;
    if (!block.abandoned && block.bulk_copies) end_bulk_copies(block);
    if (!block.abandoned && one_at_a_time && block.registers.has_changed) check_registers(block);
    if (!block.abandoned && block.tensor_memory) check_tensor_memory_is_free(block);
    block.cluster->ended |= 1u << block.cluster_rank;
    current_thread = nullptr;
    race::end_block(block);
    if (block.abandoned) reset_after_fault(block);
    return true;
}

/// Continues a parked block. Returns false if it waits again.
inline bool run_on(Block& block) {
    Thread& thread = *block.parked;
    block.parked = nullptr;
    resume(block.host, thread);
    return end_unless_parked(block);
}

/// Makes a block the only one of its cluster.
inline void begin_alone(Block& block) {
    block.alone = {{1, 1, 1}, 1, {&block}, 0, 0, 0, 0, 0, nullptr, false};
    block.cluster_rank = 0;
}

/// Runs one block of the grid on the calling OS thread. Returns false if it waits for others.
inline bool run_block(Block& block, unsigned long long linear_block) {
    const uint3 grid = block.launch->grid;
    blockIdx.x = static_cast<unsigned>(linear_block % grid.x);
    blockIdx.y = static_cast<unsigned>(linear_block / grid.x % grid.y);
    blockIdx.z = static_cast<unsigned>(linear_block / grid.x / grid.y);
    block.started = 0;
    block.exited = 0;
    block.vain_spins = block.spins_at_turn = 0;
    block.others_may_run = false;
    current_thread = nullptr;
    current_block = &block;
    if (block.cluster == &block.alone) begin_alone(block);
    block.cluster->begun++;
    if (block.has_done_once) {
        memset(block.done_once, 0, sizeof(block.done_once));
        block.has_done_once = false;
    }
    if (block.registers.has_changed) block.registers = {};
    for (Barrier& barrier : block.barriers) barrier = {};  // a block may end with arrivals that no thread waits for
    schedule::begin_block(block.thread_count);
    race::begin_block(block);
    for (unsigned first = 0; first < block.thread_count; first += warp_threads) {
        const unsigned lanes = block.thread_count - first;
        block.warps[first / warp_threads].alive = lanes >= warp_threads ? ~0u : (1u << lanes) - 1;
    }
    start_fiber(block.host, block);
    return end_unless_parked(block);
}

}  // namespace tkjit::sim
