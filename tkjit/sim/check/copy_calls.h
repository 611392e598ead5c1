// Copies and fills in instrumented code. g++ does not report the accesses of a __builtin_memcpy that it expands inline,
// nor the accesses in its library's std::copy and std::fill. So this file turns copies and fills into calls, which the
// linker redirects to the checker. If g++ turns a copy into one load and one store, it does report them, so copies of
// those sizes stay inline and type punning stays fast.
#pragma once

#include <stddef.h>
#include <string.h>

namespace tkjit::sim::check {

constexpr bool is_one_access(size_t bytes) { return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16; }

__attribute__((always_inline)) inline void* copy(void* to, const void* from, size_t bytes) {
    if (__builtin_constant_p(bytes) && is_one_access(bytes)) return __builtin_memcpy(to, from, bytes);
    return memcpy(to, from, bytes);
}

__attribute__((always_inline)) inline void* copy_overlapping(void* to, const void* from, size_t bytes) {
    if (__builtin_constant_p(bytes) && is_one_access(bytes)) return __builtin_memmove(to, from, bytes);
    return memmove(to, from, bytes);
}

inline void* fill(void* to, int value, size_t bytes) { return memset(to, value, bytes); }

}  // namespace tkjit::sim::check

#define __builtin_memcpy(...) ::tkjit::sim::check::copy(__VA_ARGS__)
#define __builtin_memmove(...) ::tkjit::sim::check::copy_overlapping(__VA_ARGS__)
#define __builtin_memset(...) ::tkjit::sim::check::fill(__VA_ARGS__)
