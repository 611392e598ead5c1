// State that a launch on the CPU keeps for the next one. The loader gives all launchers one pool; without it each
// launcher has its own.
#pragma once

#include <signal.h>
#include <stdint.h>

namespace tkjit::sim {

struct Block;

/// A launcher's answer to a signal.
enum class Signalled : int32_t {
    nothing,  // the signal does not concern this launcher
    fatal,    // it interrupted a kernel, which cannot continue; a line reports this
    handled,  // the interrupted thread may be resumed
};

/// The process's handler of fatal signals, and the launchers that it asks.
struct SignalHandlers {
    using Ask = Signalled (*)(int number, siginfo_t* info, void* context);
    using Mention = bool (*)(int number);
    struct Launcher {
        Ask ask;          // called in the thread that got the signal
        Mention mention;  // writes a line if a kernel runs in any other thread
    };
    static constexpr unsigned most_launchers = 8192;
    static constexpr unsigned signals = 5;  // listed in runtime/signals.h

    Launcher launchers[most_launchers];
    uint32_t launcher_count;
    uint32_t installing;  // set while a thread installs the handler
    void (*handler)(int, siginfo_t*, void*);
    bool is_installed[signals];
    struct sigaction previous[signals];  // the previous action of each signal
};

struct Pool {
    static constexpr unsigned most_idle = 64;
    Block* idle[most_idle];   // slots, null if empty; one atomic exchange takes or fills a slot
    uint32_t guard_mappings;  // of the stacks of all blocks, idle or not (see runtime/fiber.h)
    SignalHandlers handlers;
};

}  // namespace tkjit::sim
