// The line of the kernel's source that an operation was called from.
#pragma once

namespace tkjit::sim {

/// Passed as a last, defaulted argument `Site site = Site::here()`, which the compiler evaluates at the call.
struct Site {
    const char* file;
    int line;

    static constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
        return {file, line};
    }
};

}  // namespace tkjit::sim
