// Faults that the processor raises in a kernel: a division by zero, a wild pointer, a stack overflow.
//
// The signal handler records what happened, and makes the interrupted OS thread continue in another function, on the
// fiber's stack, which is no longer needed. That function does the work that a handler must not do: it allocates, runs
// addr2line, and leaves the block as for any other fault. Library code may hold a lock, so a fault inside a library
// still ends the process, after printing a line that names the thread.
#pragma once

#include "../detail/block.h"
#include "../detail/vector_types.h"
#include "fault.h"
#include "fiber.h"
#include "interruption.h"
#include "launch_state.h"
#include "lines.h"
#include "machine_context.h"
#include "signal_line.h"
#include "signals.h"

#include <tkjit/sim_pool.h>

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>

namespace tkjit::sim {

/// Returns whether the calling OS thread is working on one of this launcher's launches. Only then may a handler read
/// its thread-local variables, because other threads would have to allocate these variables first.
inline bool is_worker() {
    for (Launch*& slot : active_launches) {
        const Launch* const launch = __atomic_load_n(&slot, __ATOMIC_ACQUIRE);
        if (launch == nullptr) continue;
        const Helpers& helpers = *launch->helpers;
        if (pthread_equal(launch->caller, pthread_self())) return true;
        const int count = __atomic_load_n(&helpers.count, __ATOMIC_ACQUIRE);
        for (int i = helpers.joined; i < count; i++) {
            if (pthread_equal(helpers.threads[i], pthread_self())) return true;
        }
    }
    return false;
}

/// Returns everything that the handler knows about a fault, including whether it hit the guard page below the stack.
inline HardwareFault describe_fault(int number, const siginfo_t& info, const MachineContext& context, const Stack& stack) {
    HardwareFault fault{};
    fault.number = number;
    fault.code = info.si_code;
    fault.instruction = context.instruction();
    fault.address = reinterpret_cast<uintptr_t>(info.si_addr);
    fault.is_write = context.is_write();
    fault.used_up_stack = number == SIGSEGV && fault.address - reinterpret_cast<uintptr_t>(stack.lowest) < guard_bytes;
    return fault;
}

/// Appends a description of the running thread's fault.
inline void append_fault(ErrorText& text, const HardwareFault& fault) {
    const char* const access = fault.is_write ? "a write to" : "a read of";
    const auto address = static_cast<unsigned long long>(fault.address);
    if (fault.used_up_stack) {
        text.append("stack overflow: the thread's stack is %zu KiB", (stack_bytes - most_stagger - guard_bytes) >> 10);
    } else if (fault.is_call) {
        text.append("a call to address 0x%llx, where there is no function", address);
    } else if (fault.number == SIGFPE) {
        text.append(fault.code == FPE_INTDIV ? "an integer division by zero" : "a floating-point exception");
    } else if (fault.number == SIGILL) {
        text.append(fault.is_undefined ? "a point that the compiler considers unreachable: a null pointer, a division "
                                         "by zero, or __builtin_trap()"
                                       : "an instruction that this processor does not have");
    } else if (fault.number == SIGBUS) {
        text.append("a bus error at address 0x%llx", address);
    } else if (fault.code != SEGV_MAPERR && fault.code != SEGV_ACCERR) {
        text.append("an access to a misaligned vector, or to an address that cannot exist");
    } else if (fault.address < guard_bytes) {
        text.append("%s address 0x%llx, through a null pointer", access, address);
    } else {
        text.append("%s address 0x%llx, %s", access, address,
                    fault.code == SEGV_MAPERR ? "where there is no memory" : "which does not allow it");
    }
}

/// Appends the running thread, and the line of an instruction if it is known.
inline void append_place(ErrorText& text, uintptr_t instruction) {
    const uint3 thread = current_thread->index;
    text.append(", in block (%u, %u, %u), thread (%u, %u, %u)", blockIdx.x, blockIdx.y, blockIdx.z, thread.x, thread.y,
                thread.z);
    char place[1024];
    find_line(instruction, place, sizeof place);
    if (place[0]) text.append(" (%s)", place);
}

/// The function in which a thread continues after the processor has stopped it.
[[noreturn]] __attribute__((noinline, cold)) inline void end_at_fault() {
    Block& block = *current_block;
    if (claim_fault(*block.launch)) {
        ErrorText text(block.launch->error_text);
        append_fault(text, block.fault);
        append_place(text, block.fault.instruction);
        text.append("; for more, run python -m tkjit check FILE.py");
    }
    abandon_block(block);
}

/// Called by the handler, in the thread that received a signal.
inline Signalled ask_of_signal(int number, siginfo_t* info, void* given) {
    MachineContext context(given);
    const uintptr_t instruction = context.instruction();
    const bool is_own = in_own_code(instruction);
    if (!MachineContext::is_known || (!is_own && !is_worker())) return Signalled::nothing;
    if (current_thread == nullptr || current_block == nullptr) return Signalled::nothing;
    Block& block = *current_block;
    const Stack& stack = *current_thread.first_of_row()->stack;
    HardwareFault fault = describe_fault(number, *info, context, stack);
    const bool in_fiber = context.stack_pointer() - reinterpret_cast<uintptr_t>(stack.lowest) < stack_bytes;
    if (info->si_code <= 0 && number != SIGABRT) {
        // A handler before ours may pass on a fault that will happen again when the kernel continues: it either calls
        // our handler, or sends the signal to its own thread, which then receives it while in the kernel's code.
        const bool is_passed_on = is_own ? info->si_code == SI_TKILL : !in_fiber;
        return is_passed_on && info->si_pid == getpid() ? Signalled::handled : Signalled::nothing;
    }
    if (!in_fiber && !fault.used_up_stack) return Signalled::nothing;
    if (!is_own && number != SIGABRT && instruction == fault.address && in_own_code(context.return_address())) {
        fault.is_call = true;
        fault.instruction = context.return_address() - 1;
    }
    if (number == SIGABRT || (!is_own && !fault.is_call) || block.fault.number != 0) {
        SignalLine() << "tkjit: " << signal_name(number) << " in a library that the kernel " << kernel_name()
                     << " called, in block " << blockIdx << ", thread " << threadIdx
                     << "; the process cannot continue; for more, run python -m tkjit check FILE.py";
        return Signalled::fatal;
    }
    if (number == SIGFPE && context.skip_overflowing_division()) return Signalled::handled;
    fault.is_undefined = number == SIGILL && context.at_undefined_instruction();
    block.fault = fault;
    context.go_on_with(end_at_fault, stack.lowest + stack_bytes);
    return Signalled::handled;
}

/// Prints that a kernel was running when the signal arrived in a thread that was not running it.
inline bool mention_kernel(int number) {
    for (Launch*& slot : active_launches) {
        if (__atomic_load_n(&slot, __ATOMIC_ACQUIRE) == nullptr) continue;
        SignalLine() << "tkjit: " << signal_name(number) << " outside of kernels, while the kernel " << kernel_name() << " ran";
        return true;
    }
    return false;
}

/// Prepares each thread once, and again from time to time, because a library may have removed the handler or the stack.
inline void watch_signals(long long now) {
#ifndef TKJIT_SIM_CHECKED  // a checked process runs only the kernel, and has its own handlers (check/endings.h)
    if (__builtin_expect(now - signals_seen_ns > signals_trusted_ns, false)) {
        prepare_for_signals({ask_of_signal, mention_kernel}, now);
    }
#else
    (void)now;
#endif
}

}  // namespace tkjit::sim
