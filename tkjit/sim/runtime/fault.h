// Faults: turns a kernel's mistake into the text that `launch` returns.
#pragma once

#include "../detail/block.h"
#include "../detail/fault.h"
#include "../detail/site.h"
#include "../detail/vector_types.h"
#include "fiber.h"
#include "launch_state.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

namespace tkjit::sim {

inline constexpr size_t error_text_bytes = 4096;

const char* operation_name(Operation operation) {
    static const char* const operation_names[] = {
        "nothing",
        "__syncthreads",
        "__syncthreads_count",
        "__syncthreads_and",
        "__syncthreads_or",
        "a named barrier",
        "__syncwarp",
        "__shfl_sync",
        "__shfl_up_sync",
        "__shfl_down_sync",
        "__shfl_xor_sync",
        "__ballot_sync",
        "__any_sync",
        "__all_sync",
        "__match_any_sync",
        "__match_all_sync",
        "__reduce_add_sync",
        "__reduce_min_sync",
        "__reduce_max_sync",
        "__reduce_and_sync",
        "__reduce_or_sync",
        "__reduce_xor_sync",
        "elect.sync",
        "mma",
        "ldmatrix",
        "stmatrix",
        "__activemask",
        "a loop of atomics or __nanosleep",
        "a sync of the grid",
        "a wait for an mbarrier",
        "a wait for other devices",
        "wgmma",
        "setmaxnreg",
        "barrier.cluster",
        "an access to tensor memory",
    };
    return operation_names[static_cast<int>(operation)];
}

/// Builds a text piece by piece, and truncates it if it does not fit.
class ErrorText {
  public:
    explicit ErrorText(char* text) : text_(text) { text_[0] = 0; }

    __attribute__((format(printf, 2, 3))) void append(const char* format, ...) {
        va_list arguments;
        va_start(arguments, format);
        append_list(format, arguments);
        va_end(arguments);
    }

    void append_list(const char* format, va_list arguments) {
        const int length = vsnprintf(text_ + used_, error_text_bytes - used_, format, arguments);
        used_ = used_ + length < error_text_bytes ? used_ + length : error_text_bytes - 1;
    }

  private:
    char* text_;
    size_t used_ = 0;
};

/// Returns true only for a launch's first fault. The caller then owns error_text.
inline bool claim_fault(Launch& launch) { return !__atomic_exchange_n(&launch.failed, 1, __ATOMIC_ACQ_REL); }

inline bool launch_failed(const Launch& launch) { return __atomic_load_n(&launch.failed, __ATOMIC_RELAXED); }

/// Leaves the block permanently. Its fibers are not unwound; their stacks are simply reused.
[[noreturn]] inline void abandon_block(Block& block) {
    block.abandoned = true;
    Context discarded;
    switch_context(discarded, block.host, nullptr);
    __builtin_unreachable();
}

[[noreturn]] __attribute__((noinline, cold, format(printf, 2, 3))) void fail(Site site, const char* format, ...) {
    Thread& thread = *current_thread;
    Block& block = *thread.block;
    if (claim_fault(*block.launch)) {
        block.launch->error_code = block.error_code;
        ErrorText text(block.launch->error_text);
        va_list arguments;
        va_start(arguments, format);
        text.append_list(format, arguments);
        va_end(arguments);
        text.append(", in block (%u, %u, %u), thread (%u, %u, %u) (%s:%d)", blockIdx.x, blockIdx.y, blockIdx.z,
                    thread.index.x, thread.index.y, thread.index.z, site.file, site.line);
    }
    abandon_block(block);
}

/// Returns whether two threads are at the same place, so that the report can list them in one line.
inline bool same_wait(const Thread& a, const Thread& b) {
    if (a.exited || b.exited) return a.exited && b.exited;
    return a.waiting_in == b.waiting_in && is_same_place(a.site, b.site);
}

// mbarrier.h
void say_what_is_missing(const Thread& thread, ErrorText& text);
bool wait_for_same_phase(const Thread& a, const Thread& b);

inline bool same_reason(const Thread& a, const Thread& b) {
    return same_wait(a, b) && (a.exited || a.waiting_in != Operation::mbarrier || wait_for_same_phase(a, b));
}

/// Appends a line for each group of threads that wait in the same place.
inline void say_where_threads_wait(const Block& block, ErrorText& text) {
    for (unsigned i = 0; i < block.started; i++) {
        const Thread& thread = block.threads[i];
        bool reported = false;
        for (unsigned j = 0; j < i && !reported; j++) reported = same_reason(block.threads[j], thread);
        if (reported) continue;
        unsigned count = 0;
        const Thread* last = &thread;
        for (unsigned j = i; j < block.thread_count; j++) {
            if (!same_reason(block.threads[j], thread)) continue;
            count++;
            last = &block.threads[j];
        }
        text.append("\n  %u of %u threads, (%u, %u, %u)", count, block.thread_count, thread.index.x, thread.index.y,
                    thread.index.z);
        if (count > 1) text.append(" to (%u, %u, %u),", last->index.x, last->index.y, last->index.z);
        if (thread.exited) {
            text.append(" have exited");
        } else {
            text.append(" wait in %s (%s:%d)", operation_name(thread.waiting_in), thread.site.file, thread.site.line);
            if (thread.waiting_in == Operation::mbarrier) say_what_is_missing(thread, text);
        }
    }
}

[[noreturn]] __attribute__((noinline, cold)) void fail_deadlock(Block& block) {
    if (!claim_fault(*block.launch)) abandon_block(block);
    ErrorText text(block.launch->error_text);
    text.append("deadlock in block (%u, %u, %u): what its threads wait for can never happen", blockIdx.x, blockIdx.y,
                blockIdx.z);
    say_where_threads_wait(block, text);
    for (unsigned rank = 0; rank < block.cluster->count; rank++) {
        if (rank == block.cluster_rank) continue;
        text.append("\n  in the block of rank %u of its cluster:", rank);
        say_where_threads_wait(*block.cluster->blocks[rank], text);
    }
    const bool others = block.launch->block_count > 1 && !block.launch->cooperative && block.cluster->count == 1;
    for (unsigned i = 0; others && i < block.thread_count; i++) {
        if (block.threads[i].exited || block.threads[i].waiting_in != Operation::spin) continue;
        text.append("\n  blocks that wait for each other have to run at once: set cooperative=True in the spec");
        break;
    }
    abandon_block(block);
}

}  // namespace tkjit::sim

/// Device code's `assert`. <assert.h> may be included again at any time and redefine the macro, but the macro always
/// calls this function. A hidden definition in the shared object takes precedence over the C library's.
extern "C" __attribute__((visibility("hidden"), noreturn)) void __assert_fail(const char* condition, const char* file,
                                                                              unsigned line,
                                                                              const char* function) noexcept {
    if (tkjit::sim::current_thread == nullptr) {
        fprintf(stderr, "%s:%u: %s: Assertion `%s' failed.\n", file, line, function, condition);
        abort();
    }
    constexpr int cuda_error_assert = 710;
    tkjit::sim::current_thread->block->error_code = cuda_error_assert;
    tkjit::sim::fail({file, static_cast<int>(line)}, "assertion `%s` failed", condition);
}
