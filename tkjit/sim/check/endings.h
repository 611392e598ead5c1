// Reports a checked program's signals and time-outs as findings, with their place, in every mode.
#pragma once

#include "../detail/block.h"
#include "../detail/vector_types.h"
#include "../runtime/fiber.h"
#include "../runtime/machine_context.h"
#include "findings.h"
#include "regions.h"

#include <execinfo.h>
#include <signal.h>
#include <stdint.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace tkjit::sim::check {

/// Returns the address of the instruction at which a signal arrived, or 0 if it is unknown.
inline unsigned long long interrupted_at(void* context) {
#ifdef __x86_64__
    return static_cast<unsigned long long>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
    return static_cast<unsigned long long>(static_cast<ucontext_t*>(context)->uc_mcontext.pc);
#else
    (void)context;
    return 0;
#endif
}

inline constexpr int most_calls = 64;

/// Writes the addresses of the calls that led here, and returns their number. It allocates nothing.
inline int note_calls(unsigned long long* calls) {
    void* frames[most_calls];
    const int count = backtrace(frames, most_calls);
    for (int i = 0; i < count; i++) calls[i] = reinterpret_cast<unsigned long long>(frames[i]) - 1;
    return count;
}

/// Finds where a signal arrived, and the calls that led there. For example, an abort comes from the C library, but the
/// line to report is its caller's.
inline std::vector<unsigned long long> interrupted_calls(void* context) {
    unsigned long long calls[1 + most_calls] = {interrupted_at(context)};
    return {calls, calls + 1 + note_calls(calls + 1)};
}

inline Json place_of_signal(const std::vector<unsigned long long>& calls, const char* access) {
    Json here;
    here.numbers("calls", calls).text("access", access);
    return here.index("block", blockIdx).index("thread", threadIdx);
}

inline bool is_behind_stack(uintptr_t address) {
    if (current_thread == nullptr) return false;
    const auto lowest = reinterpret_cast<uintptr_t>(current_thread->stack->lowest);
    return address - (lowest - guard_bytes) < 2 * guard_bytes;
}

/// Reports an access to unmapped memory. AddressSanitizer reports such an access itself.
inline void on_bad_access(int, siginfo_t* info, void* context) {
    const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
    Json json;
    if (is_behind_stack(address)) {
        json.text("kind", "fault").text("text", "the stack of a thread, 1 MiB, is full: an endless recursion?");
        write_line(json.number("ends", 1).object("here", place_of_signal(interrupted_calls(context), "call")));
        _exit(3);
    }
    json.text("kind", "memory").text("what", "SEGV").number("bytes", 0).number("ends", 1);
    json.number("address", static_cast<long long>(address));
    add_nearest(json, address);
    write_line(json.object("here", place_of_signal(interrupted_calls(context), "access")));
    _exit(3);
}

inline const char* name_of_signal(int signal) {
    switch (signal) {
        case SIGFPE: return "SIGFPE, as from an integer division by zero";
        case SIGILL: return "SIGILL, as from an instruction that the compiler puts at an unreachable point";
        case SIGTRAP: return "SIGTRAP";
        default: return "SIGABRT, as from an uncaught exception, or a failed check in a library";
    }
}

inline void on_deadly_signal(int signal, siginfo_t*, void* context) {
    if (signal == SIGFPE && MachineContext(context).skip_overflowing_division()) return;  // as in an unchecked run
    Json json;
    json.text("kind", "fault").text("text", std::string("it ends with ") + name_of_signal(signal)).number("ends", 1);
    write_line(json.object("here", place_of_signal(interrupted_calls(context), "instruction")));
    _exit(3);
}

inline void handle(int signal, void (*handler)(int, siginfo_t*, void*)) {
    struct sigaction action {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(signal, &action, nullptr);
}

[[noreturn]] inline void end_endless(const std::vector<unsigned long long>& calls) {
    Json json;
    json.text("kind", "fault").number("ends", 1);
    json.text("text",
              "it does not end: a loop, or a wait for something that no thread does; --timeout gives it longer");
    write_line(json.object("here", place_of_signal(calls, "loop")));
    _exit(4);  // check/child_process.py's TIMED_OUT
}

/// Reports a launch that does not end. The signal may arrive between two threads, when no call leads to the kernel's
/// code, so it is sent several times. If a stack cannot be followed, the calls that were found so far are reported.
inline void on_timeout(int, siginfo_t*, void* context) {
    constexpr int samples = 8;
    constexpr long microseconds_between = 3000;
    static int taken = 0;
    static unsigned long long calls[samples * (most_calls + 1)];  // nothing is allocated until the program ends
    static int count = 0;
    const auto end = [](int, siginfo_t*, void*) { end_endless({calls, calls + count}); };
    calls[count++] = interrupted_at(context);
    struct sigaction before {};
    sigaction(SIGSEGV, nullptr, &before);
    handle(SIGSEGV, end);
    count += note_calls(calls + count);
    sigaction(SIGSEGV, &before, nullptr);
    if (++taken == samples) end(SIGALRM, nullptr, context);
    const itimerval next{{0, 0}, {0, microseconds_between}};
    setitimer(ITIMER_REAL, &next, nullptr);
}

inline void handle_signals(int timeout_s) {
    static char stack[256 << 10];
    const stack_t alternative{stack, 0, sizeof(stack)};
    sigaltstack(&alternative, nullptr);
    void* frame;
    backtrace(&frame, 1);  // the first call opens a library, which a handler should not do
#ifndef TKJIT_SIM_MEMORY  // AddressSanitizer has its own
    handle(SIGSEGV, on_bad_access);
    handle(SIGBUS, on_bad_access);
#endif
    for (const int signal : {SIGFPE, SIGILL, SIGTRAP, SIGABRT}) handle(signal, on_deadly_signal);
    handle(SIGALRM, on_timeout);
    alarm(static_cast<unsigned>(timeout_s));
}

}  // namespace tkjit::sim::check
