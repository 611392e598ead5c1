// A kernel's fault becomes the text that `launch` returns. A fault never prints to the terminal, and never ends the
// process.
#pragma once

#include "block.h"
#include "site.h"

namespace tkjit::sim {

/// Ends the launch with a text about the running thread: `WHAT, in block (0, 0, 0), thread (1, 0, 0) (file.cu:7)`.
[[noreturn]] __attribute__((format(printf, 2, 3))) void fail(Site site, const char* format, ...);

/// Ends the launch because no thread of the block can continue. The text lists where each group of threads waits.
[[noreturn]] void fail_deadlock(Block& block);

}  // namespace tkjit::sim

/// Ends the launch with an error, as the trap instruction does on a device.
[[noreturn]] inline void __trap(tkjit::sim::Site site = tkjit::sim::Site::here()) {
    tkjit::sim::fail(site, "__trap()");
}
[[noreturn]] inline void __brkpt(tkjit::sim::Site site = tkjit::sim::Site::here()) {
    tkjit::sim::fail(site, "__brkpt()");
}
