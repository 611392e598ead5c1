// Fills a tensor before the launch, in the same stream: scratch, and outputs that a kernel adds to.
#pragma once

#include <tkjit/arg.h>
#include <tkjit/convert.h>
#include <tkjit/launch.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace tkjit {

namespace detail {

// The position in memory of the i-th element in row-major order.
__host__ __device__ inline int64_t place_of(int64_t i, const TkjitArg& arg, bool is_strided) {
    if (!is_strided) return i;
    int64_t place = 0;
    for (int dim = arg.rank; dim-- > 0; i /= arg.extents[dim]) place += i % arg.extents[dim] * arg.strides[dim];
    return place;
}

#ifndef TKJIT_SIM
template <class T>
__global__ void fill_kernel(const __grid_constant__ TkjitArg arg, int64_t count, bool is_strided, T value) {
    const int64_t step = int64_t(gridDim.x) * blockDim.x;
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
        static_cast<T*>(arg.data)[place_of(i, arg, is_strided)] = value;
}
#endif

}  // namespace detail

// Returns an error text, or null. `value` is a double, or an int64_t if a double would not be exact.
template <class T, class Value>
const char* fill(const TkjitArg& arg, bool is_strided, Value value, int32_t device, void* stream) {
    const int64_t count = numel(arg).value();
    if (count == 0) return nullptr;
    T filling{};
    if (value != Value(0)) {
        if constexpr (requires { T(value); }) filling = T(value);
        else return "Fill: the source's macros disable the conversion of a number to its element type";
    }
#if defined(TKJIT_SIM_OVERFLOW)
    return nullptr;  // the tensor may have billions of elements, and is zero
#elif defined(TKJIT_SIM)
    for (int64_t i = 0; i < count; ++i) static_cast<T*>(arg.data)[detail::place_of(i, arg, is_strided)] = filling;
    return nullptr;
#else
    const detail::DeviceGuard guard(device);
    if (guard.error != cudaSuccess) return detail::cuda_error("cudaSetDevice", guard.error);
    const auto on = static_cast<cudaStream_t>(stream);
    if (value == Value(0) && !is_strided) {
        const cudaError_t error = cudaMemsetAsync(arg.data, 0, size_t(count) * sizeof(T), on);
        return error == cudaSuccess ? nullptr : detail::cuda_error("cudaMemsetAsync", error);
    }
    constexpr int threads = 256;
    const int64_t blocks = (count + threads - 1) / threads;
    const int64_t most = 132 * 8;  // a few for each multiprocessor; threads loop over the rest
    detail::fill_kernel<T><<<unsigned(blocks < most ? blocks : most), threads, 0, on>>>(arg, count, is_strided, filling);
    const cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? nullptr : detail::cuda_error("fill", error);
#endif
}

}  // namespace tkjit
