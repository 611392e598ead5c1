// torch's own macros, with tkjit's dtypes. They also accept ``x.type()``, which older sources pass.
#pragma once

#include <tkjit/torch/tensor.h>

namespace detail {
inline c10::ScalarType scalar_type(const at::DeprecatedTypeProperties& type) { return type.scalarType(); }
inline c10::ScalarType scalar_type(const at::Tensor& tensor) { return tensor.scalar_type(); }
inline c10::ScalarType scalar_type(caffe2::TypeMeta meta) { return meta.toScalarType(); }
}  // namespace detail

#include_next <ATen/Dispatch.h>
