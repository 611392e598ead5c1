// Converts torch's element types to tkjit's (tkjit/arg.h).
#pragma once

#include <tkjit/call/dtypes.h>

#include <c10/core/ScalarType.h>

#include <cstdint>

namespace tkjit {

inline int32_t dtype_of(c10::ScalarType type) {
    switch (type) {
        case c10::ScalarType::Bool: return TKJIT_BOOL;
        case c10::ScalarType::Byte: return TKJIT_UINT8;
        case c10::ScalarType::Char: return TKJIT_INT8;
        case c10::ScalarType::UInt16: return TKJIT_UINT16;
        case c10::ScalarType::Short: return TKJIT_INT16;
        case c10::ScalarType::UInt32: return TKJIT_UINT32;
        case c10::ScalarType::Int: return TKJIT_INT32;
        case c10::ScalarType::UInt64: return TKJIT_UINT64;
        case c10::ScalarType::Long: return TKJIT_INT64;
        case c10::ScalarType::Half: return TKJIT_FLOAT16;
        case c10::ScalarType::BFloat16: return TKJIT_BFLOAT16;
        case c10::ScalarType::Float: return TKJIT_FLOAT32;
        case c10::ScalarType::Double: return TKJIT_FLOAT64;
        case c10::ScalarType::Float8_e4m3fn: return TKJIT_FLOAT8_E4M3FN;
        case c10::ScalarType::Float8_e5m2: return TKJIT_FLOAT8_E5M2;
        case c10::ScalarType::Float8_e8m0fnu: return TKJIT_FLOAT8_E8M0FNU;
        case c10::ScalarType::Float4_e2m1fn_x2: return TKJIT_FLOAT4_E2M1FN_X2;
        case c10::ScalarType::ComplexFloat: return TKJIT_COMPLEX64;
        case c10::ScalarType::ComplexDouble: return TKJIT_COMPLEX128;
        default: return -1;
    }
}

}  // namespace tkjit
