// TKJIT_SIM_TRACE: prints a line for each barrier that completes and each copy that lands, with the place and the
// thread.
#pragma once

#include "../detail/block.h"
#include "../detail/site.h"
#include "../detail/vector_types.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

/// The file descriptor for the lines, or -1 for none. Set by the code that opens the launcher.
extern "C" {
__attribute__((visibility("default"))) int32_t tkjit_sim_trace = -1;
}

namespace tkjit::sim {

inline bool traced() { return __builtin_expect(tkjit_sim_trace >= 0, false); }

/// Writes `block (0, 0, 0) thread (5, 0, 0): WHAT (file.cu:7)`, in one piece.
__attribute__((noinline, cold, format(printf, 2, 3))) inline void trace(Site site, const char* format, ...) {
    const uint3 thread = current_thread->index;
    char line[512];
    int used = snprintf(line, sizeof(line), "block (%u, %u, %u) thread (%u, %u, %u): ", blockIdx.x, blockIdx.y,
                        blockIdx.z, thread.x, thread.y, thread.z);
    va_list arguments;
    va_start(arguments, format);
    used += vsnprintf(line + used, sizeof(line) - used, format, arguments);
    va_end(arguments);
    if (used < int(sizeof(line))) used += snprintf(line + used, sizeof(line) - used, " (%s:%d)\n", site.file, site.line);
    if (used >= int(sizeof(line))) used = sizeof(line) - 1, line[used - 1] = '\n';
    // if the reader has gone, only the lines are lost
    [[maybe_unused]] const ssize_t written = write(tkjit_sim_trace, line, static_cast<size_t>(used));
}

}  // namespace tkjit::sim
