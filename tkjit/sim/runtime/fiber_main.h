// The functions in which every fiber begins.
#pragma once

#include "../detail/block.h"
#include "fault.h"
#include "fiber.h"
#include "launch_state.h"
#include "schedule.h"
#include "scheduler.h"

#include <exception>

namespace tkjit::sim {

void note_exception(const char* what);  // host_calls.h
[[noreturn]] void fail_exception();     // host_calls.h

bool next_thread() {
    Thread& thread = *current_thread;
    Block& block = *thread.block;
    Stack& stack = *thread.stack;
    end_thread(thread);
    if (block.ready_first || block.started == block.thread_count) return false;
    begin_thread(block, stack);
    return true;
}

/// Runs CUDA threads on the calling fiber's stack, until one of them has had to wait and another one is ready.
[[noreturn]] __attribute__((noinline)) inline void run_fiber() {
    Block& block = *current_block;
    Stack& stack = *block.starting_stack;
    for (;;) {
        begin_thread(block, stack);
        block.launch->run(block.launch->body);
        Thread& thread = *current_thread;
        while (block.ready_first == nullptr && block.exited < block.thread_count) {
            if (!land_for_waiters(block)) wait_for_cluster(block);
        }
        stack.next_free = block.free_stacks;
        block.free_stacks = &stack;
        if (block.ready_first) {
            resume(thread.context, schedule::take_ready(block));
        } else {
            switch_context(thread.context, block.host, nullptr);
        }
    }
}

/// The first function of every fiber. It has no caller, so exceptions end here. In a checked build an exception ends
/// the program where it is thrown, so that the checker sees the calls that led there (check/endings.h).
inline void fiber_main() {
    enter_stack(nullptr);
#ifdef TKJIT_SIM_CHECKED
    run_fiber();
#else
    try {
        run_fiber();
    } catch (const std::exception& error) {
        note_exception(error.what());
    } catch (...) {
        note_exception("one of a type that is not std::exception");
    }
    fail_exception();  // not in the handlers: it does not return, so the exception would never be freed
#endif
}

}  // namespace tkjit::sim
