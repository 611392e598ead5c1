// The part of torch's header that CUDAApplyUtils.cuh needs; see tkjit/torch/tensor.h.
#pragma once

#include <tkjit/torch/tensor.h>

namespace at::native {
inline namespace tkjit_stand_in {
inline void copy_ignoring_overlaps(const at::TensorBase& to, const at::TensorBase& from) {
    at::call<void>("aten::copy_", "", at::Tensor(to), at::Tensor(from), false);
}
}  // inline namespace tkjit_stand_in
}  // namespace at::native
