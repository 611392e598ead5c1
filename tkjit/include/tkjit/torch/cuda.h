// The current stream and device as torch knows them. Only a CUDA build of torch has these functions; see cuda_symbols.cpp.
#pragma once

#include "tensor.h"

#include <cuda_runtime.h>

namespace c10 {
namespace cuda {
inline namespace tkjit_stand_in {

inline void check_cuda(cudaError_t status) {
    if (status != cudaSuccess) throw Error(str("CUDA error: ", cudaGetErrorString(status)));
}

inline DeviceIndex current_device() {
    int device = 0;
    check_cuda(cudaGetDevice(&device));
    return DeviceIndex(device);
}

class CUDAStream {
public:
    CUDAStream(cudaStream_t stream, DeviceIndex device) : stream_(stream), device_(device) {}
    cudaStream_t stream() const { return stream_; }
    operator cudaStream_t() const { return stream_; }
    DeviceIndex device_index() const { return device_; }
    void synchronize() const { check_cuda(cudaStreamSynchronize(stream_)); }

private:
    cudaStream_t stream_;
    DeviceIndex device_;
};

inline CUDAStream getCurrentCUDAStream(DeviceIndex device = -1) {
    if (device < 0) device = current_device();
    void* stream = nullptr;
#ifndef TKJIT_SIM
    check_call(aoti_torch_get_current_cuda_stream(device, &stream), "getCurrentCUDAStream");
#endif
    return {static_cast<cudaStream_t>(stream), device};
}

/// Makes a device the current one until the end of the scope.
class CUDAGuard {
public:
    explicit CUDAGuard(Device device) : CUDAGuard(device.index()) {}
    explicit CUDAGuard(DeviceIndex device) : before_(current_device()) {
        if (device >= 0) check_cuda(cudaSetDevice(device));
    }
    CUDAGuard(const CUDAGuard&) = delete;
    ~CUDAGuard() { cudaSetDevice(before_); }
    DeviceIndex original_device_index() const { return before_; }

private:
    DeviceIndex before_;
};
class OptionalCUDAGuard {
public:
    OptionalCUDAGuard() = default;
    explicit OptionalCUDAGuard(Device device) {
        if (device.is_cuda()) guard_.emplace(device);
    }

private:
    std::optional<CUDAGuard> guard_;
};

}  // inline namespace tkjit_stand_in
}  // namespace cuda
using DeviceGuard = cuda::OptionalCUDAGuard;
}  // namespace c10

namespace at {
using c10::DeviceGuard;
inline c10::cuda::OptionalCUDAGuard device_of(const Tensor& tensor) { return c10::cuda::OptionalCUDAGuard(tensor.device()); }
namespace cuda {
inline namespace tkjit_stand_in {
using namespace c10::cuda::tkjit_stand_in;

inline cudaDeviceProp* getCurrentDeviceProperties() {
    static std::vector<std::unique_ptr<cudaDeviceProp>> known(64);
    const DeviceIndex device = current_device();
    if (!known[size_t(device)]) {
        auto found = std::make_unique<cudaDeviceProp>();
        check_cuda(cudaGetDeviceProperties(found.get(), device));
        known[size_t(device)] = std::move(found);
    }
    return known[size_t(device)].get();
}

}  // inline namespace tkjit_stand_in
}  // namespace cuda
}  // namespace at

#define C10_CUDA_CHECK(...) c10::cuda::check_cuda(__VA_ARGS__)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define AT_CUDA_CHECK(...) C10_CUDA_CHECK(__VA_ARGS__)
