// PTX ISA, `multimem`: accesses through an address that refers to the same place on several devices.
#pragma once

#include "../detail/multicast.h"
#include "../detail/tensor_map.h"
#include "arithmetic.h"
#include "memory.h"
#include "operands.h"

namespace tkjit::sim::ptx {

/// Converts a pair of halves to floats, in which they are combined. Returns other elements unchanged.
template <class T>
inline auto widened(T value) {
    if constexpr (is_pair<T>) {
        return float2{to_float(value.x), to_float(value.y)};
    } else {
        return value;
    }
}
template <class T>
inline T combined(Reduction reduction, T a, T b) {
    return reduction == Reduction::add_ ? static_cast<T>(a + b) : reduction == Reduction::min_ ? (b < a ? b : a) : (a < b ? b : a);
}
inline float2 combined(Reduction reduction, float2 a, float2 b) {
    return {combined(reduction, a.x, b.x), combined(reduction, a.y, b.y)};
}

/// PTX ISA, `multimem.ld_reduce`: 16-bit types are summed in float, in the order of the devices.
template <class T, unsigned count>
inline void multimem_ld_reduce(Reduction reduction, T (&to)[count], const char* address, Site site = Site::here()) {
    const Multicast& multicast = multicast_at(address, sizeof(to), site);
    for (unsigned i = 0; i < count; i++) {
        const auto part = [&](unsigned device) {
            T value;
            __builtin_memcpy(static_cast<void*>(&value), multicast.on(device, address) + i * sizeof(T), sizeof(T));
            return widened(value);
        };
        auto sum = part(0);
        for (unsigned device = 1; device < multicast.devices; device++) sum = combined(reduction, sum, part(device));
        if constexpr (is_pair<T>) {
            to[i].x = from_float<decltype(T::x)>(sum.x);
            to[i].y = from_float<decltype(T::y)>(sum.y);
        } else {
            to[i] = sum;
        }
    }
}

/// PTX ISA, `multimem.st`.
template <class T, unsigned count>
inline void multimem_st(char* address, const T (&values)[count], Site site = Site::here()) {
    const Multicast& multicast = multicast_at(address, sizeof(values), site);
    for (unsigned device = 0; device < multicast.devices; device++) {
        __builtin_memcpy(multicast.on(device, address), values, sizeof(values));
    }
}

/// PTX ISA, `multimem.red`.
template <class T, unsigned count, class Operation>
inline void multimem_red(Operation operation, char* address, const T (&values)[count], Site site = Site::here()) {
    const Multicast& multicast = multicast_at(address, sizeof(values), site);
    for (unsigned device = 0; device < multicast.devices; device++) {
        red<T, count>(operation, multicast.on(device, address), values, site);
    }
}

}  // namespace tkjit::sim::ptx
