// TORCH_CHECK, and the exception that it throws.
#pragma once

#include "shim.h"

#include <sstream>
#include <stdexcept>
#include <string>

namespace c10 {
inline namespace tkjit_stand_in {

struct SourceLocation {
    const char* function;
    const char* file;
    uint32_t line;
};
struct Error : std::runtime_error {
    Error(SourceLocation, const std::string& message) : Error(message) {}
    using std::runtime_error::runtime_error;
    std::string msg() const { return what(); }
    const char* what_without_backtrace() const { return what(); }
};
struct IndexError : Error {
    using Error::Error;
};
struct ValueError : Error {
    using Error::Error;
};
struct TypeError : Error {
    using Error::Error;
};
struct NotImplementedError : Error {
    using Error::Error;
};

struct LinAlgError : Error {
    using Error::Error;
};
struct OutOfMemoryError : Error {
    using Error::Error;
};

template <class... T>
std::string str(const T&... parts) {
    std::ostringstream text;
    int none[] = {0, (void(text << parts), 0)...};
    (void)none;
    return text.str();
}

/// The text of a failed check: the message, or the condition if there is no message.
template <class... T>
std::string text_of_check(const char*, const T&... parts) {
    return str(parts...);
}
inline std::string text_of_check(const char* condition) {
    return str("Expected ", condition, " to be true, but got false.");
}

/// Not inlined, so that a function with many checks stays small and compiles fast.
template <class E, class... T>
[[noreturn, gnu::cold, gnu::noinline]] void fail(const char* condition, const T&... parts) {
    throw E(text_of_check(condition, parts...));
}

/// Throws torch's message for a failed call.
[[noreturn, gnu::cold, gnu::noinline]] inline void fail_call(const char* what) {
    const char* const text = torch_exception_get_what_without_backtrace ? torch_exception_get_what_without_backtrace() : nullptr;
    throw Error(text && *text ? text : std::string(what) + " failed");
}
inline void check_call(AOTITorchError failed, const char* what) {
    if (failed) fail_call(what);
}

/// Throws if torch is too old to have the functions that the stand-ins call.
inline void require_torch() {
    const auto major = aoti_torch_abi_version() >> 56, minor = aoti_torch_abi_version() >> 48 & 0xff;
    if (major < 2 || (major == 2 && minor < 11))
        throw Error(str("this extension needs torch 2.11 or later, but this is torch ", major, ".", minor));
}

/// Raises a Python warning at a line of the source.
inline void warn(const char* file, int line, const char* function, const std::string& text) {
    aoti_torch_warn(function, file, uint32_t(line), text.c_str());
}

}  // inline namespace tkjit_stand_in
}  // namespace c10

// Ends with a block, because torch's macros allow a check without a semicolon and sources rely on that.
#define TKJIT_TORCH_CHECK(error, condition, ...)          \
    if (!(condition)) {                                   \
        c10::fail<c10::error>(#condition, ##__VA_ARGS__); \
    }
#define TORCH_CHECK(condition, ...) TKJIT_TORCH_CHECK(Error, condition, ##__VA_ARGS__)
#define TORCH_CHECK_INDEX(condition, ...) TKJIT_TORCH_CHECK(IndexError, condition, ##__VA_ARGS__)
#define TORCH_CHECK_VALUE(condition, ...) TKJIT_TORCH_CHECK(ValueError, condition, ##__VA_ARGS__)
#define TORCH_CHECK_TYPE(condition, ...) TKJIT_TORCH_CHECK(TypeError, condition, ##__VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(condition, ...) TKJIT_TORCH_CHECK(NotImplementedError, condition, ##__VA_ARGS__)
#define TORCH_CHECK_WITH(error, condition, ...) TKJIT_TORCH_CHECK(error, condition, ##__VA_ARGS__)
#define TORCH_CHECK_WITH_MSG(error, condition, type, ...) TKJIT_TORCH_CHECK(error, condition, ##__VA_ARGS__)
#define TORCH_CHECK_ARG(condition, number, ...) TORCH_CHECK(condition, "invalid argument ", number, ": ", ##__VA_ARGS__)
#define TKJIT_TORCH_COMPARE(a, b, sign) \
    TORCH_CHECK((a)sign(b), "Check failed: " #a " " #sign " " #b " (", (a), " vs. ", (b), "). ")
#define TORCH_CHECK_EQ(a, b) TKJIT_TORCH_COMPARE(a, b, ==)
#define TORCH_CHECK_NE(a, b) TKJIT_TORCH_COMPARE(a, b, !=)
#define TORCH_CHECK_LT(a, b) TKJIT_TORCH_COMPARE(a, b, <)
#define TORCH_CHECK_LE(a, b) TKJIT_TORCH_COMPARE(a, b, <=)
#define TORCH_CHECK_GT(a, b) TKJIT_TORCH_COMPARE(a, b, >)
#define TORCH_CHECK_GE(a, b) TKJIT_TORCH_COMPARE(a, b, >=)
#define TORCH_CHECK_NOTNULL(pointer) \
    ([](auto* tkjit_pointer) {       \
        TORCH_CHECK(tkjit_pointer != nullptr, "Check failed: '" #pointer "' must not be null"); \
        return tkjit_pointer;        \
    }(pointer))
#define TORCH_INTERNAL_ASSERT(condition, ...) TKJIT_TORCH_CHECK(Error, condition, ##__VA_ARGS__)
#ifdef NDEBUG
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(condition, ...) \
    while (false) TORCH_INTERNAL_ASSERT(condition, ##__VA_ARGS__)
#else
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(condition, ...) TORCH_INTERNAL_ASSERT(condition, ##__VA_ARGS__)
#endif
#define TORCH_CHECK_IF_NOT_ON_CUDA(condition, ...) TORCH_CHECK(condition, ##__VA_ARGS__)
#define AT_ERROR(...)                                  \
    do {                                               \
        throw c10::Error(c10::str(__VA_ARGS__));       \
    } while (false)
#define AT_INDEX_ERROR(...) throw c10::IndexError(c10::str(__VA_ARGS__))
#define AT_ASSERTM(condition, ...) TORCH_CHECK(condition, ##__VA_ARGS__)
#define AT_CHECK(condition, ...) TORCH_CHECK(condition, ##__VA_ARGS__)
#define AT_ASSERT(condition, ...) TORCH_CHECK(condition, ##__VA_ARGS__)

// ends with a semicolon like torch's macro, because sources leave it out
#define TORCH_WARN(...) c10::warn(__FILE__, __LINE__, __func__, c10::str(__VA_ARGS__));
#define TORCH_WARN_ONCE(...)                           \
    {                                                  \
        static const bool tkjit_warned = [&] {         \
            TORCH_WARN(__VA_ARGS__)                    \
            return true;                               \
        }();                                           \
        (void)tkjit_warned;                            \
    }
#define TORCH_WARN_DEPRECATION(...) TORCH_WARN(__VA_ARGS__)
#define AT_WARN(...) TORCH_WARN(__VA_ARGS__)
