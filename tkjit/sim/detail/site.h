// The line in the kernel's source from which an operation was called.
#pragma once

#include <source_location>

namespace tkjit::sim {

/// Passed as the last argument, with the default `Site site = Site::here()`, which the compiler evaluates at the call.
struct Site {
    const char* file;
    int line;
    int column;  // or another number that distinguishes two calls on one line

#ifdef __clang__
    static constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE(),
                               int column = __builtin_COLUMN()) {
        return {file, line, column};
    }
#else
    static constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE(),
                               std::source_location place = std::source_location::current()) {
        return {file, line, static_cast<int>(place.column())};
    }
#endif

    /// Distinguishes the calls within one macro, which would otherwise all have the column of the macro's name.
    constexpr Site numbered(int number) const { return {file, line, -1 - number}; }
};

inline bool is_same_line(Site a, Site b) {
    return a.line == b.line && (a.file == b.file || __builtin_strcmp(a.file, b.file) == 0);
}
inline bool is_same_place(Site a, Site b) { return a.column == b.column && is_same_line(a, b); }

}  // namespace tkjit::sim
