// What a launch on the CPU keeps for the next one. The loader gives all launchers one pool. Without it each launcher
// has its own.
#pragma once

#include <signal.h>
#include <stdint.h>

namespace tkjit::sim {

struct Block;

/// What a launcher makes of a signal.
enum class Signalled : int32_t {
    nothing,  // it is no business of this launcher's
    fatal,    // it came in a kernel, which cannot go on; a line says so
    handled,  // the interrupted thread may be resumed
};

/// The process's handler of the signals that end a process, and the launchers that it asks.
struct SignalHandlers {
    using Ask = Signalled (*)(int number, siginfo_t* info, void* context);
    using Mention = bool (*)(int number);
    struct Launcher {
        Ask ask;          // in the thread that the signal came to
        Mention mention;  // writes a line if a kernel runs in any other thread
    };
    static constexpr unsigned most_launchers = 8192;
    static constexpr unsigned signals = 5;  // runtime/signals.h says which

    Launcher launchers[most_launchers];
    uint32_t launcher_count;
    uint32_t installing;  // set while a thread installs them
    void (*handler)(int, siginfo_t*, void*);
    bool is_installed[signals];
    struct sigaction previous[signals];  // what each signal did before
};

struct Pool {
    static constexpr unsigned most_idle = 64;
    Block* idle[most_idle];   // or null: slots, each taken and filled by one exchange
    uint32_t guard_mappings;  // of stacks of idle blocks and of others (see runtime/fiber.h)
    SignalHandlers handlers;
};

}  // namespace tkjit::sim
