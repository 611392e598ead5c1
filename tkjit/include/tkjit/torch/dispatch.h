// AT_DISPATCH_*: a block for the C++ type of a dtype, which it names scalar_t.
#pragma once

#include "tensor.h"

namespace c10 {
inline namespace tkjit_stand_in {
inline ScalarType dtype_of(ScalarType dtype) { return dtype; }
inline ScalarType dtype_of(const at::Tensor& tensor) { return tensor.scalar_type(); }
}  // inline namespace tkjit_stand_in
}  // namespace c10

#define AT_DISPATCH_CASE(dtype_, ...)                                     \
    case dtype_: {                                                        \
        using scalar_t [[maybe_unused]] = c10::CppTypeOf<dtype_>::type;   \
        return __VA_ARGS__();                                             \
    }
#define AT_DISPATCH_SWITCH(dtype_, name, ...)                                                                       \
    [&] {                                                                                                           \
        const c10::ScalarType tkjit_dtype = c10::dtype_of(dtype_);                                                   \
        switch (tkjit_dtype) {                                                                                      \
            __VA_ARGS__                                                                                             \
            default: throw c10::NotImplementedError(c10::str('"', name, "\" not implemented for '", tkjit_dtype, "'")); \
        }                                                                                                           \
    }()
#define TKJIT_TORCH_FLOATING(...) AT_DISPATCH_CASE(c10::kDouble, __VA_ARGS__) AT_DISPATCH_CASE(c10::kFloat, __VA_ARGS__)
#define TKJIT_TORCH_INTEGRAL(...)                                                                                   \
    AT_DISPATCH_CASE(c10::kByte, __VA_ARGS__) AT_DISPATCH_CASE(c10::kChar, __VA_ARGS__)                              \
    AT_DISPATCH_CASE(c10::kInt, __VA_ARGS__) AT_DISPATCH_CASE(c10::kLong, __VA_ARGS__) AT_DISPATCH_CASE(c10::kShort, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES(dtype, name, ...) AT_DISPATCH_SWITCH(dtype, name, TKJIT_TORCH_FLOATING(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(dtype, name, ...) \
    AT_DISPATCH_SWITCH(dtype, name, TKJIT_TORCH_FLOATING(__VA_ARGS__) AT_DISPATCH_CASE(c10::kHalf, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND(other, dtype, name, ...) \
    AT_DISPATCH_SWITCH(dtype, name, TKJIT_TORCH_FLOATING(__VA_ARGS__) AT_DISPATCH_CASE(other, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND2(other, another, dtype, name, ...)      \
    AT_DISPATCH_SWITCH(dtype, name, TKJIT_TORCH_FLOATING(__VA_ARGS__) AT_DISPATCH_CASE(other, __VA_ARGS__) \
                                        AT_DISPATCH_CASE(another, __VA_ARGS__))
#define AT_DISPATCH_INTEGRAL_TYPES(dtype, name, ...) AT_DISPATCH_SWITCH(dtype, name, TKJIT_TORCH_INTEGRAL(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES(dtype, name, ...) \
    AT_DISPATCH_SWITCH(dtype, name, TKJIT_TORCH_FLOATING(__VA_ARGS__) TKJIT_TORCH_INTEGRAL(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND2(other, another, dtype, name, ...)                                              \
    AT_DISPATCH_SWITCH(dtype, name, TKJIT_TORCH_FLOATING(__VA_ARGS__) TKJIT_TORCH_INTEGRAL(__VA_ARGS__)             \
                                        AT_DISPATCH_CASE(other, __VA_ARGS__) AT_DISPATCH_CASE(another, __VA_ARGS__))
