// The text of a launcher's error: of any length, one per thread.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace tkjit {

namespace detail {

struct KeptText {
    char* begin = nullptr;

    ~KeptText() { std::free(begin); }
};
#ifdef TKJIT_SIM_CHECKED
inline KeptText kept_text;  // these checks treat thread_local data as the kernel's shared memory, and run on one thread
#else
inline thread_local KeptText kept_text;
#endif

}  // namespace detail

// Formats a text that stays valid until this thread's next call. The text may be an argument of that call.
[[gnu::format(printf, 1, 2)]] inline const char* error_text(const char* format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    const int length = std::vsnprintf(nullptr, 0, format, arguments);
    auto* const made = length < 0 ? nullptr : static_cast<char*>(std::malloc(size_t(length) + 1));
    if (made) std::vsnprintf(made, size_t(length) + 1, format, again);
    va_end(again);
    va_end(arguments);
    if (!made) return "out of memory while formatting an error message";
    std::free(detail::kept_text.begin);
    return detail::kept_text.begin = made;
}

}  // namespace tkjit
