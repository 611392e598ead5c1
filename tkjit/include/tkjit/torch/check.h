// TORCH_CHECK, and the exception that it throws.
#pragma once

#include "shim.h"

#include <sstream>
#include <stdexcept>
#include <string>

namespace c10 {
inline namespace tkjit_stand_in {

struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
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

template <class... T>
std::string str(const T&... parts) {
    std::ostringstream text;
    int none[] = {0, (void(text << parts), 0)...};
    (void)none;
    return text.str();
}

/// The text of a check that failed: its own, or that of its condition.
template <class... T>
std::string text_of_check(const char*, const T&... parts) {
    return str(parts...);
}
inline std::string text_of_check(const char* condition) {
    return str("Expected ", condition, " to be true, but got false.");
}

/// Throws what torch says of a call that failed.
inline void check_call(AOTITorchError failed, const char* what) {
    if (!failed) return;
    const char* const text = torch_exception_get_what_without_backtrace ? torch_exception_get_what_without_backtrace() : nullptr;
    throw Error(text && *text ? text : std::string(what) + " failed");
}

}  // inline namespace tkjit_stand_in
}  // namespace c10

// sources leave out the semicolon behind it, which torch's own allows
#define TKJIT_TORCH_CHECK(error, condition, ...) \
    if (!(condition)) {                          \
        throw c10::error(c10::text_of_check(#condition, ##__VA_ARGS__)); \
    }
#define TORCH_CHECK(condition, ...) TKJIT_TORCH_CHECK(Error, condition, ##__VA_ARGS__)
#define TORCH_INTERNAL_ASSERT(condition, ...) TKJIT_TORCH_CHECK(Error, condition, ##__VA_ARGS__)
#define TORCH_CHECK_INDEX(condition, ...) TKJIT_TORCH_CHECK(IndexError, condition, ##__VA_ARGS__)
#define TORCH_CHECK_VALUE(condition, ...) TKJIT_TORCH_CHECK(ValueError, condition, ##__VA_ARGS__)
#define TORCH_CHECK_TYPE(condition, ...) TKJIT_TORCH_CHECK(TypeError, condition, ##__VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(condition, ...) TKJIT_TORCH_CHECK(NotImplementedError, condition, ##__VA_ARGS__)
#define TKJIT_TORCH_COMPARE(a, b, sign) \
    TORCH_CHECK((a)sign(b), "Check failed: " #a " " #sign " " #b " (", (a), " vs. ", (b), "). ")
#define TORCH_CHECK_EQ(a, b) TKJIT_TORCH_COMPARE(a, b, ==)
#define TORCH_CHECK_NE(a, b) TKJIT_TORCH_COMPARE(a, b, !=)
#define TORCH_CHECK_LT(a, b) TKJIT_TORCH_COMPARE(a, b, <)
#define TORCH_CHECK_LE(a, b) TKJIT_TORCH_COMPARE(a, b, <=)
#define TORCH_CHECK_GT(a, b) TKJIT_TORCH_COMPARE(a, b, >)
#define TORCH_CHECK_GE(a, b) TKJIT_TORCH_COMPARE(a, b, >=)
#define AT_ERROR(...) throw c10::Error(c10::str(__VA_ARGS__))
#define AT_ASSERTM(condition, ...) TORCH_CHECK(condition, ##__VA_ARGS__)
#define AT_ASSERT(condition) TORCH_CHECK(condition)
