// Reductions by bulk copies and tensor copies, in global memory.
#pragma once

#include "../detail/bulk_copies.h"
#include "../detail/float16_rounding.h"
#include "../detail/tensor_map.h"

#include <stdint.h>
#include <string.h>

namespace tkjit::sim {

template <class T, class Combine>
inline void combine_atomically(char* global, const char* shared, unsigned bytes, Combine combine) {
    for (unsigned i = 0; i + sizeof(T) <= bytes; i += sizeof(T)) {
        T value, seen, wanted;
        memcpy(&value, shared + i, sizeof(T));
        T* const place = reinterpret_cast<T*>(global + i);
        __atomic_load(place, &seen, __ATOMIC_RELAXED);
        do {
            wanted = combine(seen, value);
        } while (!__atomic_compare_exchange(place, &seen, &wanted, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    }
}

template <class T>
inline void reduce_numbers(Reduction reduction, char* global, const char* shared, unsigned bytes) {
    switch (reduction) {
        case Reduction::add_:
            return combine_atomically<T>(global, shared, bytes, [](T a, T b) { return static_cast<T>(a + b); });
        case Reduction::min_:
            return combine_atomically<T>(global, shared, bytes, [](T a, T b) { return b < a ? b : a; });
        default:
            return combine_atomically<T>(global, shared, bytes, [](T a, T b) { return a < b ? b : a; });
    }
}

/// Reduces two-byte floats. They are added in float and rounded once.
template <class Value, class Bits>
inline void reduce_halves(Reduction reduction, char* global, const char* shared, unsigned bytes, Value value, Bits bits) {
    combine_atomically<unsigned short>(global, shared, bytes, [=](unsigned short a, unsigned short b) {
        const float x = value(a), y = value(b);
        if (reduction == Reduction::add_) return bits(x + y);
        return reduction == Reduction::min_ ? (y < x ? b : a) : (x < y ? b : a);
    });
}

inline void reduce(TensorType type, Reduction reduction, char* global, const char* shared, unsigned bytes) {
    if (reduction == Reduction::and_ || reduction == Reduction::or_ || reduction == Reduction::xor_) {
        return combine_atomically<unsigned char>(global, shared, bytes, [=](unsigned char a, unsigned char b) {
            const int wide = reduction == Reduction::and_ ? a & b : reduction == Reduction::or_ ? a | b : a ^ b;
            return static_cast<unsigned char>(wide);
        });
    }
    switch (type) {
        case TensorType::u32:
            return reduce_numbers<uint32_t>(reduction, global, shared, bytes);
        case TensorType::s32:
            return reduce_numbers<int32_t>(reduction, global, shared, bytes);
        case TensorType::u64:
            return reduce_numbers<uint64_t>(reduction, global, shared, bytes);
        case TensorType::s64:
            return reduce_numbers<int64_t>(reduction, global, shared, bytes);
        case TensorType::f32:
        case TensorType::f32_ftz:
            return reduce_numbers<float>(reduction, global, shared, bytes);
        case TensorType::f64:
            return reduce_numbers<double>(reduction, global, shared, bytes);
        case TensorType::f16:
            return reduce_halves(reduction, global, shared, bytes, half_value, half_bits);
        default:
            return reduce_halves(reduction, global, shared, bytes, bfloat16_value, bfloat16_bits);
    }
}

}  // namespace tkjit::sim
