// Devices of an export: their memory, their streams, and the code that they can run.
#pragma once

#include <tkjit/call/texts.h>
#include <tkjit/export/errors.h>

#ifdef TKJIT_EXPORT_CUDA
#include <tkjit/lost_device.h>
#endif

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace tkjit::exported {

inline std::string device_text(tkjit_device device) {
    if (device.type == TKJIT_CPU) return "cpu";
    if (device.type == TKJIT_CUDA) return "cuda:" + std::to_string(device.index);
    return "a device of the unknown type " + std::to_string(device.type);
}

#ifdef TKJIT_EXPORT_CUDA

inline void check(cudaError_t error, const std::string& what) {
    if (error == cudaSuccess) return;
    cudaGetLastError();  // the error must not be blamed on the next call
    const int kind = error == cudaErrorMemoryAllocation ? TKJIT_MEMORY_ERROR : TKJIT_LAUNCH_ERROR;
    const char* const lost = loses_device(error) ? "; the device is lost to this process, which must be restarted" : "";
    throw Error(kind, what + ": " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")" + lost);
}

// Makes a GPU current, and restores the previous one.
class CurrentDevice {
public:
    explicit CurrentDevice(int index) {
        check(cudaGetDevice(&before_), "cudaGetDevice");
        if (before_ == index) return;
        check(cudaSetDevice(index), "cuda:" + std::to_string(index));
        changed_ = true;
    }
    ~CurrentDevice() {
        if (changed_) cudaSetDevice(before_);
    }
    CurrentDevice(const CurrentDevice&) = delete;
    CurrentDevice& operator=(const CurrentDevice&) = delete;

private:
    int before_ = 0;
    bool changed_ = false;
};

// 90 for compute capability 9.0. Queried once per GPU, because it does not change.
inline int capability(int index) {
    constexpr int most = 64;
    static std::atomic<int> known[most];
    if (index >= 0 && index < most)
        if (const int value = known[index].load(std::memory_order_relaxed)) return value;
    int major = 0, minor = 0;
    const std::string what = "cuda:" + std::to_string(index);
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index), what);
    check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index), what);
    if (index >= 0 && index < most) known[index].store(10 * major + minor, std::memory_order_relaxed);
    return 10 * major + minor;
}

#else

[[noreturn]] inline void refuse_gpu() {
    throw Error(TKJIT_ARGUMENT_ERROR, "this library is for the CPU only; export it for a GPU architecture: --arch cpu,90a");
}

#endif

inline void check_device(tkjit_device device) {
    if (device.type == TKJIT_CPU) return;
    if (device.type != TKJIT_CUDA) throw Error(TKJIT_ARGUMENT_ERROR, device_text(device) + "; expected cpu or cuda");
#ifndef TKJIT_EXPORT_CUDA
    refuse_gpu();
#endif
}

// ---- memory --------------------------------------------------------------------------------------------------------

constexpr size_t kAlignment = 256;  // like cudaMalloc

inline void* allocate_bytes(tkjit_device device, size_t bytes) {
    check_device(device);
    const std::string what = std::to_string(bytes) + " bytes on " + device_text(device);
    if (device.type == TKJIT_CPU) {
        void* data = nullptr;
        if (posix_memalign(&data, kAlignment, bytes ? bytes : 1) != 0) throw Error(TKJIT_MEMORY_ERROR, "out of memory: " + what);
        return data;
    }
#ifdef TKJIT_EXPORT_CUDA
    const CurrentDevice current(device.index);
    void* data = nullptr;
    check(cudaMalloc(&data, bytes ? bytes : 1), what);
    return data;
#else
    return nullptr;
#endif
}

inline void free_bytes(tkjit_device device, void* data) noexcept {
    if (device.type == TKJIT_CPU) return std::free(data);
#ifdef TKJIT_EXPORT_CUDA
    try {
        const CurrentDevice current(device.index);
        cudaFree(data);  // waits for kernels that use it
    } catch (const Error&) {  // the device is lost, and its memory with it
    }
#endif
}

// Temporary memory of one call. On a GPU it is freed in stream order, after the launch that uses it.
class Scratch {
public:
    Scratch() = default;
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch() {
        if (!data_) return;
#ifdef TKJIT_EXPORT_CUDA
        if (device_.type == TKJIT_CUDA) {
            try {
                const CurrentDevice current(device_.index);
                cudaFreeAsync(data_, static_cast<cudaStream_t>(stream_));
            } catch (const Error&) {
            }
            return;
        }
#endif
        std::free(data_);
    }
    void* allocate(tkjit_device device, size_t bytes, void* stream) {
        device_ = device;
        stream_ = stream;
#ifdef TKJIT_EXPORT_CUDA
        if (device.type == TKJIT_CUDA) {
            const CurrentDevice current(device.index);
            const std::string what = std::to_string(bytes) + " bytes of scratch on " + device_text(device);
            check(cudaMallocAsync(&data_, bytes ? bytes : 1, static_cast<cudaStream_t>(stream)), what);
            return data_;
        }
#endif
        return data_ = allocate_bytes(device, bytes);
    }

private:
    void* data_ = nullptr;
    void* stream_ = nullptr;
    tkjit_device device_{};
};

inline void copy_bytes(tkjit_device to, void* to_data, tkjit_device from, const void* from_data, size_t bytes, void* stream) {
    check_device(to);
    check_device(from);
    if (!bytes) return;
    if (to.type == TKJIT_CPU && from.type == TKJIT_CPU) return void(std::memmove(to_data, from_data, bytes));
#ifdef TKJIT_EXPORT_CUDA
    const CurrentDevice current(to.type == TKJIT_CUDA ? to.index : from.index);
    const auto in = static_cast<cudaStream_t>(stream);
    check(cudaMemcpyAsync(to_data, from_data, bytes, cudaMemcpyDefault, in), "copying " + std::to_string(bytes) + " bytes");
    check(cudaStreamSynchronize(in), "copying " + std::to_string(bytes) + " bytes");
#endif
}

// ---- code ----------------------------------------------------------------------------------------------------------

// A target that a library was compiled for: "sm_90a", or "x86-64-v3" for a CPU.
struct Target {
    const char* name;
    bool is_cpu;
    int capability;     // 90 for sm_90a
    char features;      // 'a': only this capability; 'f': its family; 0: this one and newer ones of its generation
    bool (*runs_here)();  // for a CPU
};

inline bool runs_on(const Target& target, int capability) {
    if (target.is_cpu || target.features == 'a') return !target.is_cpu && target.capability == capability;
    return target.capability / 10 == capability / 10 && target.capability <= capability;
}

// The index of the best target for a device, or -1. Prefers the newest code and, among equally new code, code for only
// one capability to code for its family.
inline int target_for(const Target* targets, int count, tkjit_device device) {
    int best = -1;
    if (device.type == TKJIT_CPU) {
        for (int i = 0; i < count; ++i)
            if (targets[i].is_cpu && targets[i].runs_here()) best = i;
        return best;
    }
#ifdef TKJIT_EXPORT_CUDA
    const int has = capability(device.index);
    const auto rank = [&](const Target& target) { return 4 * target.capability + (target.features == 'a' ? 2 : target.features == 'f'); };
    for (int i = 0; i < count; ++i)
        if (runs_on(targets[i], has) && (best < 0 || rank(targets[i]) > rank(targets[best]))) best = i;
#endif
    return best;
}

inline std::string no_target_text(const Target* targets, int count, tkjit_device device) {
    std::string known;
    for (int i = 0; i < count; ++i) known += (i ? ", " : "") + std::string(targets[i].is_cpu ? "cpu-" : "") + targets[i].name;
    std::string what = device_text(device);
#ifdef TKJIT_EXPORT_CUDA
    if (device.type == TKJIT_CUDA) what += ", which is sm_" + std::to_string(capability(device.index));
#endif
    return "this library has no code for " + what + "; it has code for " + known;
}

}  // namespace tkjit::exported
