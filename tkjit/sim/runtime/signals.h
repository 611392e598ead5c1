// One handler per process for the signals that end it. It asks each launcher whether its kernel is to blame.
//
// For a signal that did not come from a kernel, our handler calls the previous handler as the system would. A handler
// that is installed later runs before ours. Our handler stays installed after a launch, because the four system calls
// that remove it would take a quarter of a short launch's time.
#pragma once

#include "../detail/block.h"
#include "../detail/language.h"
#include "pool.h"
#include "signal_line.h"

#include <tkjit/sim_pool.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

namespace tkjit::sim {

inline constexpr int deadly_signals[SignalHandlers::signals] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
inline constexpr size_t signal_stack_bytes = sizeof(Block::signal_stack);  // other handlers may print stacks on it
// The time for which a thread relies on the handler and its stack before it checks that no library has removed them.
inline constexpr long long signals_trusted_ns = 1'000'000'000;

/// Does what would have happened without our handler. If the process then ends for an unknown reason, prints a line
/// that says that an earlier kernel may be the cause.
inline void pass_signal_on(int number, siginfo_t* info, void* context, bool is_unexplained) {
    unsigned at = 0;
    while (deadly_signals[at] != number) at++;
    const struct sigaction& previous = pool().handlers.previous[at];
    const bool is_sent = info->si_code <= 0;  // by a process; otherwise by an instruction, which will be run again
    const bool has_function = previous.sa_flags & SA_SIGINFO ||
                              (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN);
    if (!has_function) {
        if (is_sent && previous.sa_handler == SIG_IGN) return;
        const bool is_own = !is_sent || info->si_pid == getpid();
        if (is_unexplained && is_own && (number == SIGABRT || number == SIGSEGV)) {
            SignalLine() << "tkjit: " << signal_name(number) << " outside of kernels; a kernel that ran before on the "
                         << "CPU may have written out of bounds; python -m tkjit check FILE.py names the line";
        }
        struct sigaction end_process {};
        end_process.sa_handler = SIG_DFL;
        sigaction(number, &end_process, nullptr);
        if (is_sent) raise(number);  // delivered when this handler returns
        return;
    }
    sigset_t mask = static_cast<ucontext_t*>(context)->uc_sigmask, before;
    for (int other = 1; other < NSIG; other++) {
        if (sigismember(&previous.sa_mask, other) == 1) sigaddset(&mask, other);
    }
    if (!(previous.sa_flags & SA_NODEFER)) sigaddset(&mask, number);
    pthread_sigmask(SIG_SETMASK, &mask, &before);
    if (previous.sa_flags & SA_SIGINFO) previous.sa_sigaction(number, info, context);
    else previous.sa_handler(number);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

inline void on_deadly_signal(int number, siginfo_t* info, void* context) {
    const int error = errno;
    const SignalHandlers& handlers = pool().handlers;
    Signalled result = Signalled::nothing;
    const uint32_t given = __atomic_load_n(&handlers.launcher_count, __ATOMIC_ACQUIRE);
    const uint32_t count = given < SignalHandlers::most_launchers ? given : SignalHandlers::most_launchers;
    for (uint32_t i = 0; i < count && result == Signalled::nothing; i++) {
        const auto ask = __atomic_load_n(&handlers.launchers[i].ask, __ATOMIC_ACQUIRE);
        if (ask) result = ask(number, info, context);
    }
    bool is_mentioned = false;
    for (uint32_t i = 0; i < count && result == Signalled::nothing && !is_mentioned; i++) {
        const auto mention = __atomic_load_n(&handlers.launchers[i].mention, __ATOMIC_ACQUIRE);
        is_mentioned = mention && mention(number);
    }
    if (result != Signalled::handled) pass_signal_on(number, info, context, result == Signalled::nothing && !is_mentioned);
    errno = error;
}

/// Makes our handler run before the current one, unless ours is already installed and the current one runs before it.
inline void install_handlers(SignalHandlers& handlers) {
    if (__atomic_exchange_n(&handlers.installing, 1u, __ATOMIC_ACQUIRE)) return;  // another thread is installing them
    if (handlers.handler == nullptr) handlers.handler = on_deadly_signal;
    for (unsigned i = 0; i < SignalHandlers::signals; i++) {
        struct sigaction now {};
        if (sigaction(deadly_signals[i], nullptr, &now) != 0) continue;
        const bool is_function = now.sa_flags & SA_SIGINFO || (now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN);
        if (is_function && (now.sa_sigaction == handlers.handler || handlers.is_installed[i])) continue;
        handlers.previous[i] = now;
        handlers.is_installed[i] = true;
        struct sigaction own {};
        own.sa_sigaction = handlers.handler;
        own.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigaction(deadly_signals[i], &own, nullptr);
    }
    __atomic_store_n(&handlers.installing, 0u, __ATOMIC_RELEASE);
}

/// The stack on which the handler runs when a fiber's stack is used up. An OS thread that has no signal stack, or one
/// that is too small, uses this stack until the thread ends. Python's faulthandler gives the main thread 17 KB, and Go
/// gives its threads 32. Reading a source line from a line table needs more, and would overwrite the objects below a
/// stack of that size.
class SignalStack {
  public:
    void ensure() {
        stack_t now{};
        if (sigaltstack(nullptr, &now) != 0 || now.ss_flags & SS_ONSTACK) return;
        if (!(now.ss_flags & SS_DISABLE) && now.ss_size >= signal_stack_bytes) return;
        if (memory_ == nullptr) {
            void* const memory = mmap(nullptr, signal_stack_bytes, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (memory == MAP_FAILED) return;
            memory_ = memory;
        }
        const stack_t own{memory_, 0, signal_stack_bytes};
        sigaltstack(&own, nullptr);
    }
    ~SignalStack() {
        if (memory_ == nullptr) return;
        stack_t now{};
        const stack_t none{nullptr, SS_DISABLE, 0};
        if (sigaltstack(nullptr, &now) == 0 && now.ss_sp == memory_) sigaltstack(&none, nullptr);
        munmap(memory_, signal_stack_bytes);
    }

  private:
    void* memory_ = nullptr;
};

/// Makes `memory`, which is in a helper's block, the helper's signal stack until the end of the scope. Does nothing if
/// `memory` is null, as it is for the launch's caller.
class BorrowedSignalStack {
  public:
    explicit BorrowedSignalStack(char* memory) : memory_(memory) {
        if (memory) set({memory, 0, signal_stack_bytes});
    }
    ~BorrowedSignalStack() {
        if (memory_) set({nullptr, SS_DISABLE, 0});
    }
    BorrowedSignalStack(const BorrowedSignalStack&) = delete;
    BorrowedSignalStack& operator=(const BorrowedSignalStack&) = delete;

  private:
    static void set(const stack_t& stack) { sigaltstack(&stack, nullptr); }
    char* memory_;
};

inline TKJIT_SIM_REGISTER long long signals_seen_ns = 0;

/// Prepares for faults during a launch: installs the handler, registers this launcher, and gives the calling thread a
/// signal stack.
__attribute__((noinline, cold)) inline void prepare_for_signals(const SignalHandlers::Launcher& own, long long now) {
    static uint32_t is_known = 0;
    static thread_local SignalStack signal_stack;
    SignalHandlers& handlers = pool().handlers;
    if (!__atomic_exchange_n(&is_known, 1u, __ATOMIC_RELAXED)) {
        const uint32_t at = __atomic_fetch_add(&handlers.launcher_count, 1u, __ATOMIC_ACQ_REL);
        if (at < SignalHandlers::most_launchers) {
            __atomic_store_n(&handlers.launchers[at].mention, own.mention, __ATOMIC_RELEASE);
            __atomic_store_n(&handlers.launchers[at].ask, own.ask, __ATOMIC_RELEASE);
        }
    }
    install_handlers(handlers);
    signal_stack.ensure();
    signals_seen_ns = now;
}

}  // namespace tkjit::sim
