// A list in a kernel's struct: as many items as the call passes, up to the maximum in the spec.
#pragma once

#include <cuda_runtime.h>

namespace tkjit {

template <class T, int MaxLength>
struct list {
    T items[MaxLength] = {};
    int count = 0;

    __host__ __device__ constexpr int size() const { return count; }
    __host__ __device__ constexpr const T& operator[](int i) const { return items[i]; }
    __host__ __device__ constexpr const T* begin() const { return items; }
    __host__ __device__ constexpr const T* end() const { return items + count; }
};

}  // namespace tkjit
