// Maps torch's dtypes to those of tkjit/arg.h, for the operators of an exported package.
#pragma once

#include <tkjit/export/tensors.h>

#include <torch/headeronly/core/ScalarType.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace tkjit::operators {

using torch::headeronly::ScalarType;

// In the order of TkjitDtype.
inline constexpr ScalarType dtypes[] = {
    ScalarType::Bool,     ScalarType::Byte,          ScalarType::Char,        ScalarType::UInt16,         ScalarType::Short,
    ScalarType::UInt32,   ScalarType::Int,           ScalarType::UInt64,      ScalarType::Long,           ScalarType::Half,
    ScalarType::BFloat16, ScalarType::Float,         ScalarType::Double,      ScalarType::Float8_e4m3fn,  ScalarType::Float8_e5m2,
    ScalarType::Float8_e8m0fnu, ScalarType::Float4_e2m1fn_x2, ScalarType::ComplexFloat, ScalarType::ComplexDouble,
};

// Returns -1 for a dtype that kernels do not support.
inline tkjit_dtype dtype_of(ScalarType type) {
    for (int i = 0; i < int(sizeof dtypes / sizeof *dtypes); ++i)
        if (dtypes[i] == type) return i;
    return -1;
}

// The name of an argument in messages.
struct Name {
    const char* kernel = "";
    const char* argument = "";
};

inline tkjit_tensor describe(Name name, ScalarType dtype, tkjit_device device, void* data, int64_t ndim, const int64_t* sizes, const int64_t* strides) {
    if (ndim > TKJIT_MAX_NDIM)
        throw std::runtime_error(std::string(name.kernel) + ": " + name.argument + " has " + std::to_string(ndim) +
                                 " dimensions; expected at most " + std::to_string(TKJIT_MAX_NDIM));
    tkjit_tensor tensor{};
    tensor.abi = TKJIT_TENSOR_ABI;
    tensor.dtype = dtype_of(dtype);
    tensor.ndim = int32_t(ndim);
    tensor.device = device;
    tensor.data = data;
    for (int64_t i = 0; i < ndim; ++i) {
        tensor.sizes[i] = sizes[i];
        tensor.strides[i] = strides[i];
    }
    return tensor;
}

}  // namespace tkjit::operators
