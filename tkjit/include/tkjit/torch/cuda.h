// torch's CUDA streams, devices and memory. This file calls functions that only CUDA builds of torch have:
// see cuda_symbols.cpp.
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
inline void set_device(DeviceIndex device) { check_cuda(cudaSetDevice(device)); }
inline cudaError_t SetDevice(DeviceIndex device) { return cudaSetDevice(device); }
inline cudaError_t MaybeSetDevice(DeviceIndex device) { return cudaSetDevice(device); }
inline cudaError_t GetDevice(DeviceIndex* device) {
    int found = 0;
    const cudaError_t status = cudaGetDevice(&found);
    *device = DeviceIndex(found);
    return status;
}
inline DeviceIndex device_count() {
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess ? DeviceIndex(count) : 0;
}
inline void device_synchronize() { check_cuda(cudaDeviceSynchronize()); }
inline int warp_size() { return 32; }

class CUDAStream {
public:
    CUDAStream(cudaStream_t stream, DeviceIndex device) : stream_(stream), device_(device) {}
    cudaStream_t stream() const { return stream_; }
    operator cudaStream_t() const { return stream_; }
    DeviceIndex device_index() const { return device_; }
    Device device() const { return {kCUDA, device_}; }
    void synchronize() const { check_cuda(cudaStreamSynchronize(stream_)); }
    bool query() const {
        const cudaError_t status = cudaStreamQuery(stream_);
        if (status != cudaSuccess && status != cudaErrorNotReady) check_cuda(status);
        return status == cudaSuccess;
    }
    CUDAStream unwrap() const { return *this; }
    friend bool operator==(const CUDAStream& a, const CUDAStream& b) { return a.stream_ == b.stream_ && a.device_ == b.device_; }
    friend bool operator!=(const CUDAStream& a, const CUDAStream& b) { return !(a == b); }

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
inline CUDAStream getDefaultCUDAStream(DeviceIndex device = -1) { return {nullptr, device < 0 ? current_device() : device}; }
inline CUDAStream getStreamFromExternal(cudaStream_t stream, DeviceIndex device) { return {stream, device}; }
inline CUDAStream getStreamFromPool(bool is_high_priority = false, DeviceIndex device = -1) {
    if (device < 0) device = current_device();
    void* stream = nullptr;
#ifndef TKJIT_SIM
    check_call(torch_get_cuda_stream_from_pool(is_high_priority, device, &stream), "getStreamFromPool");
#endif
    return {static_cast<cudaStream_t>(stream), device};
}
inline CUDAStream getStreamFromPool(int priority, DeviceIndex device = -1) { return getStreamFromPool(priority < 0, device); }
inline void setCurrentCUDAStream(CUDAStream stream) {
#ifndef TKJIT_SIM
    check_call(torch_set_current_cuda_stream(stream.stream(), stream.device_index()), "setCurrentCUDAStream");
#endif
}

/// Makes a device current until the end of the scope.
class CUDAGuard {
public:
    explicit CUDAGuard(Device device) : CUDAGuard(device.index()) {}
    explicit CUDAGuard(DeviceIndex device) : before_(c10::cuda::current_device()) { set_index(device); }
    CUDAGuard(const CUDAGuard&) = delete;
    ~CUDAGuard() { cudaSetDevice(before_); }
    void set_index(DeviceIndex device) {
        if (device >= 0) check_cuda(cudaSetDevice(device));
    }
    void set_device(Device device) { set_index(device.index()); }
    void reset_device(Device device) { set_device(device); }
    DeviceIndex original_device_index() const { return before_; }
    Device original_device() const { return {kCUDA, before_}; }
    Device current_device() const { return {kCUDA, c10::cuda::current_device()}; }

private:
    DeviceIndex before_;
};
class OptionalCUDAGuard {
public:
    OptionalCUDAGuard() = default;
    explicit OptionalCUDAGuard(std::optional<Device> device) {
        if (device) set_device(*device);
    }
    explicit OptionalCUDAGuard(Device device) { set_device(device); }
    explicit OptionalCUDAGuard(DeviceIndex device) { set_index(device); }
    void set_device(Device device) {
        if (device.is_cuda()) set_index(device.index());
    }
    void reset_device(Device device) { set_device(device); }
    void set_index(DeviceIndex device) {
        guard_.reset();
        guard_.emplace(device);
    }
    void reset() { guard_.reset(); }

private:
    std::optional<CUDAGuard> guard_;
};
/// Makes a stream and its device current until the end of the scope.
class CUDAStreamGuard {
public:
    explicit CUDAStreamGuard(CUDAStream stream) : guard_(stream.device_index()), before_(getCurrentCUDAStream()), stream_(stream) {
        setCurrentCUDAStream(stream);
    }
    CUDAStreamGuard(const CUDAStreamGuard&) = delete;
    ~CUDAStreamGuard() { setCurrentCUDAStream(before_); }
    CUDAStream original_stream() const { return before_; }
    CUDAStream current_stream() const { return stream_; }

private:
    CUDAGuard guard_;
    CUDAStream before_, stream_;
};

namespace CUDACachingAllocator {
inline void* raw_alloc(size_t bytes) {
    void* memory = nullptr;
#ifdef TKJIT_SIM
    check_cuda(cudaMalloc(&memory, bytes));
#else
    check_call(aoti_torch_cuda_caching_allocator_raw_alloc(bytes, &memory), "raw_alloc");
#endif
    return memory;
}
inline void* raw_alloc_with_stream(size_t bytes, cudaStream_t stream) {
    const CUDAStreamGuard guard(CUDAStream(stream, current_device()));
    return raw_alloc(bytes);
}
inline void raw_delete(void* memory) {
#ifdef TKJIT_SIM
    check_cuda(cudaFree(memory));
#else
    check_call(aoti_torch_cuda_caching_allocator_raw_delete(memory), "raw_delete");
#endif
}
inline void recordStream(const at::DataPtr& memory, const CUDAStream& stream) {
#ifndef TKJIT_SIM
    if (memory) at::record_stream(memory.owner(), stream.stream(), stream.device_index());
#endif
}
}  // namespace CUDACachingAllocator

}  // inline namespace tkjit_stand_in
}  // namespace cuda
}  // namespace c10

namespace at {
namespace cuda {
inline namespace tkjit_stand_in {
using namespace c10::cuda::tkjit_stand_in;

inline cudaDeviceProp* getDeviceProperties(c10::DeviceIndex device) {
    if (device < 0) device = current_device();
    static std::mutex lock;
    const std::lock_guard<std::mutex> held(lock);
    static std::vector<std::unique_ptr<cudaDeviceProp>> known(64);
    if (!known[size_t(device)]) {
        auto found = std::make_unique<cudaDeviceProp>();
        check_cuda(cudaGetDeviceProperties(found.get(), device));
        known[size_t(device)] = std::move(found);
    }
    return known[size_t(device)].get();
}
inline cudaDeviceProp* getCurrentDeviceProperties() { return getDeviceProperties(current_device()); }
/// Whether all tensors are on the current device.
inline bool check_device(at::TensorList tensors) {
    return std::all_of(tensors.begin(), tensors.end(), [](const at::Tensor& one) { return one.get_device() == current_device(); });
}
inline int64_t getNumGPUs() { return c10::cuda::device_count(); }
inline bool is_available() { return getNumGPUs() > 0; }

/// A CUDA event, created when it is first recorded.
class CUDAEvent {
public:
    explicit CUDAEvent(unsigned flags = cudaEventDisableTiming) : flags_(flags) {}
    CUDAEvent(const CUDAEvent&) = delete;
    ~CUDAEvent() {
        if (event_) cudaEventDestroy(event_);
    }
    void record() { record(getCurrentCUDAStream()); }
    void record(const CUDAStream& stream) {
        if (!event_) check_cuda(cudaEventCreateWithFlags(&event_, flags_));
        check_cuda(cudaEventRecord(event_, stream));
    }
    void recordOnce(const CUDAStream& stream) {
        if (!event_) record(stream);
    }
    void block(const CUDAStream& stream) {
        if (event_) check_cuda(cudaStreamWaitEvent(stream, event_, 0));
    }
    void synchronize() const {
        if (event_) check_cuda(cudaEventSynchronize(event_));
    }
    bool isCreated() const { return event_ != nullptr; }
    cudaEvent_t event() const { return event_; }

private:
    unsigned flags_;
    cudaEvent_t event_ = nullptr;
};

}  // inline namespace tkjit_stand_in
}  // namespace cuda
}  // namespace at

#ifdef TKJIT_TORCH_CUBLAS  // the source mentions cuBLAS, and may rely on torch's header to include it
#include <cublas_v2.h>
#endif
struct cublasContext;
namespace at {
namespace cuda {
inline namespace tkjit_stand_in {
inline cublasContext* getCurrentCUDABlasHandle() {
    void* handle = nullptr;
#ifndef TKJIT_SIM
    c10::check_call(torch_get_current_cuda_blas_handle(&handle), "getCurrentCUDABlasHandle");
#endif
    return static_cast<cublasContext*>(handle);
}
}  // inline namespace tkjit_stand_in
}  // namespace cuda
}  // namespace at

#define C10_CUDA_CHECK(...) c10::cuda::check_cuda(__VA_ARGS__)
#define C10_CUDA_CHECK_WARN(...)                                                        \
    do {                                                                                \
        const cudaError_t tkjit_status = __VA_ARGS__;                                   \
        if (tkjit_status != cudaSuccess) TORCH_WARN("CUDA warning: ", cudaGetErrorString(tkjit_status)); \
    } while (false)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define C10_CUDA_IGNORE_ERROR(...) static_cast<void>(__VA_ARGS__)
#define AT_CUDA_CHECK(...) C10_CUDA_CHECK(__VA_ARGS__)
#define TORCH_CUDABLAS_CHECK(...)                                                      \
    do {                                                                               \
        const auto tkjit_status = __VA_ARGS__;                                         \
        TORCH_CHECK(int(tkjit_status) == 0, "CUDA error: cuBLAS status ", int(tkjit_status), " when calling `" #__VA_ARGS__ "`"); \
    } while (false)
