// Common parts of the collective kernels: access to tensors of any length in vectors of 16 bytes, and sums over devices.
#pragma once

#include <tkjit/device_barrier.cuh>
#include <tkjit/gl.h>
#include <tkjit/pgl.h>

template <typename T>
struct alignas(16) Vector {
    static constexpr int size = 16 / sizeof(T);
    T element[size];
};

// The number of vectors for n elements. The last one may be partial.
template <typename T>
__device__ constexpr size_t vectors_of(size_t n) {
    return (n + Vector<T>::size - 1) / Vector<T>::size;
}

// Loads a vector, with zeros for elements past the end of the tensor.
template <typename T>
__device__ Vector<T> load(const T* tensor, size_t vector, size_t n) {
    const size_t first = vector * Vector<T>::size;
    if (first + Vector<T>::size <= n) return *reinterpret_cast<const Vector<T>*>(tensor + first);
    Vector<T> part;
    for (int i = 0; i < Vector<T>::size; ++i) part.element[i] = first + i < n ? tensor[first + i] : T(0.f);
    return part;
}

template <typename T>
__device__ void store(T* tensor, size_t vector, size_t n, const Vector<T>& value) {
    const size_t first = vector * Vector<T>::size;
    if (first + Vector<T>::size <= n) {
        *reinterpret_cast<Vector<T>*>(tensor + first) = value;
        return;
    }
    for (int i = 0; i < Vector<T>::size && first + i < n; ++i) tensor[first + i] = value.element[i];
}

// Sums in float32 and in a fixed order, so that every device gets the same bits.
template <typename T, typename Layout>
__device__ Vector<T> sum_of_devices(const Layout& x, int num_devices, size_t vector, size_t n) {
    float sum[Vector<T>::size] = {};
    for (int device = 0; device < num_devices; ++device) {
        const Vector<T> part = load(x[device].raw_ptr, vector, n);
        for (int i = 0; i < Vector<T>::size; ++i) sum[i] += float(part.element[i]);
    }
    Vector<T> result;
    for (int i = 0; i < Vector<T>::size; ++i) result.element[i] = T(sum[i]);
    return result;
}

// The calling thread's first vector, and the distance to its next one. Blocks with the same index process the same
// vectors on all devices.
__device__ inline size_t first_vector() { return blockIdx.x * size_t(blockDim.x) + threadIdx.x; }
__device__ inline size_t vector_stride() { return size_t(gridDim.x) * blockDim.x; }
