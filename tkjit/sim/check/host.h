// The program that a checked kernel is: it reads the arguments, launches once, and writes what it found.
//
//     checker INPUTS OUTPUTS FINDINGS_FD ORDER SEED TRACE_FD TIMEOUT_S
#pragma once

#include <signal.h>
#include <ucontext.h>

#include "arguments.h"

extern "C" const char* tkjit_launch(const TkjitArg* args, int32_t device, void* stream);

namespace tkjit::sim::check {

/// The address of the instruction that a signal came at; 0 where that is not known.
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

/// An access to memory that does not exist; under AddressSanitizer it reports that itself.
inline void on_bad_access(int, siginfo_t* info, void* context) {
    const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
    Json json, here;
    json.text("kind", "memory").text("what", "SEGV").number("bytes", 0);
    add_nearest(json, address);
    here.numbers("calls", {interrupted_at(context)}).text("access", "access");
    here.index("block", blockIdx).index("thread", threadIdx);
    write_line(json.object("here", here));
    _exit(3);
}

/// A launch that does not end.
inline void on_timeout(int, siginfo_t*, void* context) {
    Json json, here;
    json.text("kind", "fault").text("text", "it does not end");
    here.numbers("calls", {interrupted_at(context)}).text("access", "loop");
    here.index("block", blockIdx).index("thread", threadIdx);
    write_line(json.object("here", here));
    _exit(4);
}

inline void handle(int signal, void (*handler)(int, siginfo_t*, void*)) {
    struct sigaction action {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(signal, &action, nullptr);
}

inline void handle_signals(int timeout_s) {
    static char stack[64 << 10];
    const stack_t alternative{stack, 0, sizeof(stack)};
    sigaltstack(&alternative, nullptr);
#ifdef TKJIT_SIM_RACE
    handle(SIGSEGV, on_bad_access);
    handle(SIGBUS, on_bad_access);
#endif
    handle(SIGALRM, on_timeout);
    alarm(static_cast<unsigned>(timeout_s));
}

#ifdef TKJIT_SIM_RACE
inline void fence_off(char*, char*, char*, char*) {}

inline void begin() {
    for (const auto& segment : own_memory().writable) {
        add_region(segment.begin, segment.bytes, Space::variable, "", false);
    }
}

inline void end() {
    for (const Region& region : regions) {
        if (region.space == Space::tensor && region.starts_blank) race::report_unwritten(region);
    }
}
#else
inline void begin() {
    pthread_attr_t attributes;
    void* lowest = nullptr;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &lowest, &host_stack_bytes);
    pthread_attr_destroy(&attributes);
    host_stack.lowest = static_cast<char*>(lowest);
    begin_memory_check();
}
inline void end() {}
#endif

inline int run(char** arguments) {
    findings_file = atoi(arguments[3]);
    schedule::order = static_cast<schedule::Order>(atoi(arguments[4]));
    schedule::state += static_cast<unsigned long long>(atoll(arguments[5])) * 7919;
    tkjit_sim_trace = atoi(arguments[6]);
    handle_signals(atoi(arguments[7]));
    Arguments given;
    if (!given.read(arguments[1])) return 2;
    begin();
    if (const char* error = tkjit_launch(given.data(), 0, nullptr)) {
        write_line(Json().text("kind", "fault").text("text", error));
    } else {
        end();
    }
    if (!given.write_tensors(arguments[2])) return 2;
    write_line(Json().text("kind", "done"));
    return 0;
}

}  // namespace tkjit::sim::check

__attribute__((visibility("default"))) int main(int count, char** arguments) {
    return count == 8 ? tkjit::sim::check::run(arguments) : 2;
}
