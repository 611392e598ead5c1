// The dtype of a C++ type, and the extents of an array.
#pragma once

#include <tkjit/arg.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace tkjit {

// The TkjitDtype of a C++ type, or -1.
template <class T>
constexpr int32_t dtype_of() {
    if constexpr (std::is_same_v<T, bool>) return TKJIT_BOOL;
    else if constexpr (std::is_same_v<T, float>) return TKJIT_FLOAT32;
    else if constexpr (std::is_same_v<T, double>) return TKJIT_FLOAT64;
    else if constexpr (std::is_same_v<T, __half>) return TKJIT_FLOAT16;
    else if constexpr (std::is_same_v<T, __nv_bfloat16>) return TKJIT_BFLOAT16;
    else if constexpr (std::is_integral_v<T>) {
        constexpr int32_t is_signed[] = {TKJIT_INT8, TKJIT_INT16, TKJIT_INT32, TKJIT_INT64};
        constexpr int32_t is_unsigned[] = {TKJIT_UINT8, TKJIT_UINT16, TKJIT_UINT32, TKJIT_UINT64};
        constexpr int size = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
        return std::is_signed_v<T> ? is_signed[size] : is_unsigned[size];
    } else return -1;
}

template <class Array>
void set_extents(int64_t* extents, int32_t& rank) {
    if constexpr (std::is_array_v<Array>) {
        extents[rank++] = int64_t(std::extent_v<Array>);
        set_extents<std::remove_extent_t<Array>>(extents, rank);
    }
}

}  // namespace tkjit
