// Handles Ctrl-C while a kernel on the CPU runs in a loop without barriers. The handler calls Python's own handler, and
// then each simulator (sim/runtime/interruption.h).
#pragma once

#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace tkjit::runtime {

using GiveUp = void (*)(uintptr_t instruction, uintptr_t stack_pointer);

constexpr size_t kMostSimulators = 1024;
inline std::atomic<GiveUp> give_ups[kMostSimulators];
inline std::atomic<size_t> give_up_count{0};
inline void (*pythons_handler)(int) = nullptr;

inline void on_interruption(int number, siginfo_t* info, void* context) {
    const int error = errno;
    // Python must not see the signals that a simulator sends to its own threads
    const bool is_own = info->si_code == SI_TKILL && info->si_pid == getpid() && gettid() != getpid();
    if (!is_own) pythons_handler(number);
    uintptr_t instruction = 0, stack_pointer = 0;
#ifdef __x86_64__
    const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
    instruction = static_cast<uintptr_t>(registers[REG_RIP]);
    stack_pointer = static_cast<uintptr_t>(registers[REG_RSP]);
#else
    (void)context;
#endif
    const size_t count = give_up_count.load();
    for (size_t i = 0; i < count && i < kMostSimulators; ++i)
        if (const GiveUp give_up = give_ups[i].load()) give_up(instruction, stack_pointer);
    errno = error;
}

// Replaces Python's handler, unless the program has already replaced or removed it.
inline void watch_interruptions(GiveUp give_up) {
    size_t known = 0;  // a launcher may be opened twice
    while (known < give_up_count.load() && known < kMostSimulators && give_ups[known].load() != give_up) ++known;
    if (known == give_up_count.load() && known < kMostSimulators) {
        give_ups[known].store(give_up);
        give_up_count.store(known + 1);
    }
    struct sigaction now {};
    if (sigaction(SIGINT, nullptr, &now) != 0 || now.sa_flags & SA_SIGINFO) return;
    if (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN) return;
    pythons_handler = now.sa_handler;
    // not deferred, because a simulator may leave the handler without returning
    now.sa_flags |= SA_SIGINFO | SA_NODEFER;
    now.sa_sigaction = on_interruption;
    sigaction(SIGINT, &now, nullptr);
}

}  // namespace tkjit::runtime
