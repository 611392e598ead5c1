// Names and sizes of the element types of tkjit/arg.h.
#pragma once

#include <tkjit/arg.h>

namespace tkjit {

inline const char* dtype_name(int32_t dtype) {
    static constexpr const char* names[TKJIT_DTYPE_COUNT] = {
        "bool",    "uint8",   "int8",    "uint16",   "int16",   "uint32",  "int32",         "uint64",
        "int64",   "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2",
        "float8_e8m0fnu", "float4_e2m1fn_x2", "complex64", "complex128"};
    static_assert(names[TKJIT_DTYPE_COUNT - 1] != nullptr, "a dtype has no name");
    return dtype >= 0 && dtype < TKJIT_DTYPE_COUNT ? names[dtype] : "an unknown dtype";
}

inline int64_t bytes_of(int32_t dtype) {
    static constexpr int8_t bytes[TKJIT_DTYPE_COUNT] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 1, 1, 1, 1, 8, 16};
    static_assert(bytes[TKJIT_DTYPE_COUNT - 1] != 0, "a dtype has no size");
    return dtype >= 0 && dtype < TKJIT_DTYPE_COUNT ? bytes[dtype] : 1;
}

}  // namespace tkjit
