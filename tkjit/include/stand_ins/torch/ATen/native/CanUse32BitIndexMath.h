// Whether 32 bits are enough for the offsets of a tensor's elements.
#pragma once

#include <tkjit/torch/tensor.h>

namespace at::native {
inline namespace tkjit_stand_in {

inline bool canUse32BitIndexMath(const at::TensorBase& t, int64_t limit = std::numeric_limits<int32_t>::max()) {
    if (t.numel() == 0) return true;
    int64_t last = 0;
    for (int64_t i = 0; i < t.dim(); ++i) last += (t.size(i) - 1) * t.stride(i);
    return t.numel() < limit && last < limit;
}

}  // inline namespace tkjit_stand_in
}  // namespace at::native
