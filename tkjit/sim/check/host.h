// The program that a checked kernel is: it reads the arguments, launches once, and writes what it found.
//
//     checker INPUTS OUTPUTS FINDINGS_FD ORDER SEED TRACE_FD
#pragma once

#include <signal.h>
#include <ucontext.h>

#include "arguments.h"

extern "C" const char* tkjit_launch(const TkjitArg* args, int32_t device, void* stream);

namespace tkjit::sim::check {

/// An access to memory that does not exist; under AddressSanitizer it reports that itself.
inline void on_bad_access(int, siginfo_t* info, void* context) {
    const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
    Json json, here;
    json.text("kind", "memory").text("what", "SEGV").number("bytes", 0);
    add_nearest(json, address);
    std::vector<unsigned long long> calls;
#ifdef __x86_64__
    calls.push_back(static_cast<unsigned long long>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]) + 1);
#else
    (void)context;
#endif
    here.numbers("calls", calls).text("access", "access").index("block", blockIdx).index("thread", threadIdx);
    write_line(json.object("here", here));
    _exit(3);
}

inline void catch_bad_accesses() {
    static char stack[64 << 10];
    const stack_t alternative{stack, 0, sizeof(stack)};
    sigaltstack(&alternative, nullptr);
    struct sigaction action {};
    action.sa_sigaction = on_bad_access;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGBUS, &action, nullptr);
}

#ifdef TKJIT_SIM_RACE
inline void fence_off(char*, char*, char*, char*) {}

inline void begin() {
    catch_bad_accesses();
    for (const auto& segment : own_memory().writable) add_region(segment.begin, segment.bytes, Space::variable, "", false);
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
    return count == 7 ? tkjit::sim::check::run(arguments) : 2;
}
