// Launches a cubin through the driver API. This needs no header and no library of a toolkit.
//
// The driver is opened at the first launch. This file declares the driver's types that it uses, and a test compares them
// with <cuda.h> (tests/compile/test_nvcc_stand_ins.py).
#pragma once

#include <tkjit/error_text.h>
#include <tkjit/launch_shape.h>
#include <tkjit/lost_device.h>
#include <cuda_runtime.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include <string>
#include <type_traits>
#include <utility>

namespace tkjit::driver {

using Result = int;
inline constexpr Result success = 0;
using Device = int;
using Context = struct CUctx_st*;
using Library = struct CUlib_st*;
using Kernel = struct CUkern_st*;
using Stream = struct CUstream_st*;

enum FunctionAttribute { max_dynamic_shared_size_bytes = 8, non_portable_cluster_size_allowed = 14 };
enum LaunchAttributeId { cooperative = 2, cluster_dimension = 4, programmatic_stream_serialization = 6 };
enum CaptureMode { capture_relaxed = 2 };
enum CaptureStatus { capture_none = 0 };

union LaunchAttributeValue {
    char bytes[64];
    struct {
        unsigned x, y, z;
    } cluster;
    int flag;
};
struct LaunchAttribute {
    LaunchAttributeId id;
    char padding[8 - sizeof(LaunchAttributeId)];
    LaunchAttributeValue value;
};
struct LaunchConfig {
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_memory_bytes;
    Stream stream;
    LaunchAttribute* attributes;
    unsigned attribute_count;
};

// The driver's functions, by their names in libcuda.so.1.
struct Api {
    Result (*cuInit)(unsigned flags);
    Result (*cuDriverGetVersion)(int* version);
    Result (*cuDeviceGet)(Device* device, int ordinal);
    Result (*cuCtxGetCurrent)(Context* context);
    Result (*cuCtxGetDevice)(Device* device);
    Result (*cuCtxPushCurrent_v2)(Context context);
    Result (*cuCtxPopCurrent_v2)(Context* context);
    Result (*cuDevicePrimaryCtxGetState)(Device device, unsigned* flags, int* is_active);
    Result (*cuDevicePrimaryCtxRetain)(Context* context, Device device);
    Result (*cuLibraryLoadData)(Library* library, const void* code, void* jit_options, void** jit_values, unsigned jit_count,
                                void* options, void** values, unsigned count);
    Result (*cuLibraryGetKernel)(Kernel* kernel, Library library, const char* name);
    Result (*cuKernelSetAttribute)(FunctionAttribute attribute, int value, Kernel kernel, Device device);
    Result (*cuLaunchKernelEx)(const LaunchConfig* config, Kernel kernel, void** parameters, void** extra);
    Result (*cuThreadExchangeStreamCaptureMode)(CaptureMode* mode);
    Result (*cuStreamIsCapturing)(Stream stream, CaptureStatus* status);
    Result (*cuStreamSynchronize)(Stream stream);
    Result (*cuGetErrorName)(Result error, const char** name);
    Result (*cuGetErrorString)(Result error, const char** text);
};

inline constexpr int max_devices = 64;
inline Api api;
inline pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // for opening the driver, and for loading kernels
inline bool is_open, is_forked;
inline Device device_handles[max_devices];
inline Context primary[max_devices];  // set after the device's handle

// The reason for this pragma is in runtime.cpp.
#pragma GCC push_options
#pragma GCC optimize("Og")

inline const char* text_of(const char* what, Result code, bool synchronous) {
    const char *name = nullptr, *text = nullptr;
    if (api.cuGetErrorName) api.cuGetErrorName(code, &name);
    if (api.cuGetErrorString) api.cuGetErrorString(code, &text);
    const char* const lost =
        !loses_device(static_cast<cudaError_t>(code)) ? ""  // the driver and the runtime have the same error numbers
        : synchronous ? "; the device is lost to this process, which must be restarted"
                      : "; the device is lost to this process, which must be restarted; this launch or an "
                        "earlier one is the cause, and TKJIT_SYNC=1 shows which";
    return error_text("%s: %s (%s)%s", what, text ? text : "unknown error", name ? name : "?", lost);
}

// Opens the driver. Returns an error text, or null. The caller holds the lock.
inline const char* open_driver() {
    if (is_open) return nullptr;
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return error_text("there is no CUDA driver: %s", dlerror());
    const char* missing = nullptr;
    const auto find = [&](auto& function, const char* name) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
        if (!function && !missing) missing = name;
    };
#define TKJIT_FIND(name) find(api.name, #name);
    TKJIT_FIND(cuInit)
    TKJIT_FIND(cuDriverGetVersion)
    TKJIT_FIND(cuDeviceGet)
    TKJIT_FIND(cuCtxGetCurrent)
    TKJIT_FIND(cuCtxGetDevice)
    TKJIT_FIND(cuCtxPushCurrent_v2)
    TKJIT_FIND(cuCtxPopCurrent_v2)
    TKJIT_FIND(cuDevicePrimaryCtxGetState)
    TKJIT_FIND(cuDevicePrimaryCtxRetain)
    TKJIT_FIND(cuLibraryLoadData)
    TKJIT_FIND(cuLibraryGetKernel)
    TKJIT_FIND(cuKernelSetAttribute)
    TKJIT_FIND(cuLaunchKernelEx)
    TKJIT_FIND(cuThreadExchangeStreamCaptureMode)
    TKJIT_FIND(cuStreamIsCapturing)
    TKJIT_FIND(cuStreamSynchronize)
    TKJIT_FIND(cuGetErrorName)
    TKJIT_FIND(cuGetErrorString)
#undef TKJIT_FIND
    if (missing) return error_text("the CUDA driver is too old: it has no %s; CUDA 12.0 or newer is needed", missing);
    if (const Result code = api.cuInit(0)) return text_of("cuInit", code, false);
    // a handler, because calling getpid() at each launch would cost 0.1 us
    if (pthread_atfork(nullptr, nullptr, [] { is_forked = true; })) return "out of memory while registering a fork handler";
    is_open = true;
    return nullptr;
}

#pragma GCC pop_options

// Makes a device's primary context current, unless a context of that device already is, and restores the previous one.
class ContextGuard {
public:
    explicit ContextGuard(int32_t ordinal) {
        Context current = nullptr;
        what = "cuCtxGetCurrent";
        if ((error = api.cuCtxGetCurrent(&current))) return;
        Context context = ordinal < max_devices ? __atomic_load_n(&primary[ordinal], __ATOMIC_ACQUIRE) : nullptr;
        if (context && context == current) {  // as in nearly every launch
            device = __atomic_load_n(&device_handles[ordinal], __ATOMIC_RELAXED);
            return;
        }
        what = "cuDeviceGet";
        if ((error = api.cuDeviceGet(&device, ordinal))) return;
        Device of_current = -1;
        if (current && api.cuCtxGetDevice(&of_current) == success && of_current == device) {
            if (!context) learn_primary(ordinal);
            return;
        }
        what = "cuDevicePrimaryCtxRetain";
        if (!context && (error = retain_primary(ordinal, context))) return;
        what = "cuCtxPushCurrent";
        error = api.cuCtxPushCurrent_v2(context);
        is_pushed_ = error == success;
    }
    ~ContextGuard() {
        Context popped;
        if (is_pushed_) api.cuCtxPopCurrent_v2(&popped);
    }
    ContextGuard(const ContextGuard&) = delete;
    ContextGuard& operator=(const ContextGuard&) = delete;

    Device device = 0;
    Result error;
    const char* what;

private:
    // The context stays retained for the life of the process, so that no other context gets its address. cudaDeviceReset
    // destroys it, and the library with it.
    Result retain_primary(int32_t ordinal, Context& context) {
        const Result refused = api.cuDevicePrimaryCtxRetain(&context, device);
        if (refused == success && ordinal < max_devices) {
            __atomic_store_n(&device_handles[ordinal], device, __ATOMIC_RELAXED);
            __atomic_store_n(&primary[ordinal], context, __ATOMIC_RELEASE);
        }
        return refused;
    }
    // Records the primary context if it is active. Since a context of the device is current, the launch does not need the
    // primary one, and an inactive one is not created.
    void learn_primary(int32_t ordinal) {
        unsigned flags = 0;
        int is_active = 0;
        Context context = nullptr;
        if (ordinal >= max_devices) return;
        CaptureMode mode = capture_relaxed;
        api.cuThreadExchangeStreamCaptureMode(&mode);
        if (api.cuDevicePrimaryCtxGetState(device, &flags, &is_active) == success && is_active)
            retain_primary(ordinal, context);
        api.cuThreadExchangeStreamCaptureMode(&mode);
    }

    bool is_pushed_ = false;
};

// A kernel in a cubin. It is loaded for all devices at its first launch.
class CubinKernel {
public:
    // `cuda` is the CUDA version that the cubin was compiled with: 13020 for 13.2.
    CubinKernel(std::string cubin, std::string symbol, int cuda, bool synchronous)
        : cubin_(std::move(cubin)), symbol_(std::move(symbol)), cuda_(cuda), synchronous_(synchronous) {}

    // Returns an error text, or null. `parameters` has a pointer to each of the kernel's parameters.
    const char* launch(const LaunchShape& shape, int32_t ordinal, void* on, void** parameters) {
        if (shape.error || shape.empty) return shape.error;
        if (const char* const error = ensure_loaded()) return with_shape(error, shape);
        const ContextGuard guard(ordinal);
        const auto failed = [&](const char* what, Result code) { return with_shape(text_of(what, code, synchronous_), shape); };
        if (guard.error) return failed(guard.what, guard.error);
        if (const Result refused = allow_shared_memory(ordinal, guard.device, shape.shared_memory_bytes))
            return failed("dynamic shared memory", refused);
        const auto stream = static_cast<Stream>(on);
        if (const Result error = launch_kernel(shape, parameters, stream, guard.device)) return failed("launch", error);
        const Result later = finish(stream);
        return later == success ? nullptr : failed("kernel", later);
    }

private:
    // Loads once, and returns an error text or null. After a failure, the next launch tries again.
    const char* ensure_loaded() {
        if (!__atomic_load_n(&is_loaded_, __ATOMIC_ACQUIRE)) {
            pthread_mutex_lock(&lock);
            const char* const error = is_loaded_ ? nullptr : load();
            if (!error) __atomic_store_n(&is_loaded_, true, __ATOMIC_RELEASE);
            pthread_mutex_unlock(&lock);
            if (error) return error;
        }
        if (is_forked)
            return "CUDA was used before this process was forked, and cannot be used after the fork; start processes by "
                   "multiprocessing.set_start_method(\"spawn\")";
        return nullptr;
    }

    // Loads the cubin. While any thread captures a graph, only a thread in relaxed capture mode may load.
    const char* load() {
        if (const char* const error = open_driver()) return error;
        int version = 0;
        api.cuDriverGetVersion(&version);
        if (version / 1000 < cuda_ / 1000)
            return error_text("the kernel was compiled for CUDA %d.%d, but the driver supports CUDA %d.%d: update the driver, "
                              "or compile with an older toolkit or NVRTC",
                              cuda_ / 1000, cuda_ % 1000 / 10, version / 1000, version % 1000 / 10);
        CaptureMode mode = capture_relaxed;
        api.cuThreadExchangeStreamCaptureMode(&mode);
        Library library = nullptr;
        Result code = api.cuLibraryLoadData(&library, cubin_.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
        const char* what = "cuLibraryLoadData";
        if (code == success) {
            code = api.cuLibraryGetKernel(&kernel_, library, symbol_.c_str());
            what = "cuLibraryGetKernel";
        }
        api.cuThreadExchangeStreamCaptureMode(&mode);
        return code == success ? nullptr : text_of(what, code, synchronous_);
    }

    // Waits for the launch if launches are synchronous, except while a CUDA graph is captured: then waiting is not
    // allowed.
    Result finish(Stream stream) const {
        if (!synchronous_) return success;
        CaptureStatus status = capture_none;
        api.cuStreamIsCapturing(stream, &status);
        return status == capture_none ? api.cuStreamSynchronize(stream) : success;
    }

    // Allows the kernel more than 48 KiB of dynamic shared memory, once per device and size.
    Result allow_shared_memory(int32_t ordinal, Device device, size_t bytes) {
        constexpr size_t without_asking = 48 << 10;
        size_t unknown = 0;
        size_t& allowed = ordinal < max_devices ? allowed_bytes_[ordinal] : unknown;
        if (bytes <= without_asking || bytes <= __atomic_load_n(&allowed, __ATOMIC_RELAXED)) return success;
        const Result error = api.cuKernelSetAttribute(max_dynamic_shared_size_bytes, int(bytes), kernel_, device);
        if (error == success) __atomic_store_n(&allowed, bytes, __ATOMIC_RELAXED);
        return error;
    }

    Result launch_kernel(const LaunchShape& shape, void** parameters, Stream stream, Device device) const {
        LaunchAttribute attributes[3] = {};
        const dim3 grid = shape.grid, block = shape.block, cluster = shape.cluster;
        LaunchConfig config{grid.x, grid.y, grid.z, block.x, block.y, block.z, unsigned(shape.shared_memory_bytes), stream,
                            attributes, 0};
        const auto add = [&](LaunchAttributeId id) -> LaunchAttributeValue& {
            attributes[config.attribute_count].id = id;
            return attributes[config.attribute_count++].value;
        };
        if (shape.clustered()) {
            add(cluster_dimension).cluster = {cluster.x, cluster.y, cluster.z};
            constexpr unsigned portable = 8;  // not every GPU of an architecture can place larger clusters
            if (cluster.x * cluster.y * cluster.z > portable) {
                const Result refused = api.cuKernelSetAttribute(non_portable_cluster_size_allowed, 1, kernel_, device);
                if (refused != success) return refused;
            }
        }
        if (shape.overlaps) add(programmatic_stream_serialization).flag = 1;
        if (shape.cooperative) add(cooperative).flag = 1;
        return api.cuLaunchKernelEx(&config, kernel_, parameters, nullptr);
    }

    std::string cubin_, symbol_;
    int cuda_;
    bool synchronous_;
    bool is_loaded_ = false;
    Kernel kernel_ = nullptr;
    size_t allowed_bytes_[max_devices] = {};
};

}  // namespace tkjit::driver
