// Launches a cubin embedded in the launcher through the driver API. It needs no header and no library of a toolkit.
//
// The driver is opened at the first launch. This file declares the driver's types that it uses, and a test compares them
// with <cuda.h> (tests/compile/test_nvcc_stand_ins.py).
#pragma once

#include <tkjit/device_code.h>
#include <tkjit/error_text.h>
#include <tkjit/launch_shape.h>
#include <tkjit/lost_device.h>
#include <cuda_runtime.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include <initializer_list>
#include <utility>

// The cubin, the CUDA version it was compiled with (13020 for 13.2) and the kernel's symbol in it, from the generated
// file device_code.inc.
extern "C" {
extern __attribute__((visibility("hidden"))) const char tkjit_cubin[];
extern __attribute__((visibility("hidden"))) const int tkjit_cubin_cuda;
extern __attribute__((visibility("hidden"))) const char tkjit_entry_symbol[];
}

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

// The driver's functions and the loaded kernel, found and loaded once per process and launcher.
struct State {
    Api api;
    Library library;
    Kernel kernel;
};

inline constexpr int max_devices = 64;
inline State state;
inline pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
inline bool is_loaded, is_forked;
inline Device device_handles[max_devices];
inline Context primary[max_devices];  // set after the device's handle
inline size_t allowed_bytes[max_devices];

inline const char* text_of(const char* what, Result code) {
    const char *name = nullptr, *text = nullptr;
    if (state.api.cuGetErrorName) state.api.cuGetErrorName(code, &name);
    if (state.api.cuGetErrorString) state.api.cuGetErrorString(code, &text);
    const char* const lost =
        !loses_device(static_cast<cudaError_t>(code)) ? ""  // the driver and the runtime have the same error numbers
        : synchronous ? "; the device is lost to this process, which must be restarted"
                      : "; the device is lost to this process, which must be restarted; this launch or an "
                        "earlier one is the cause, and TKJIT_SYNC=1 shows which";
    return error_text("%s: %s (%s)%s", what, text ? text : "unknown error", name ? name : "?", lost);
}

// Opens the driver. Returns an error text, or null.
inline const char* open_driver(Api& api) {
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
    if (const Result code = api.cuInit(0)) return text_of("cuInit", code);
    return nullptr;
}

// Loads the cubin for all devices. While any thread captures a graph, only a thread in relaxed capture mode may load.
inline const char* load(State& made) {
    if (const char* const error = open_driver(made.api)) return error;
    int version = 0;
    made.api.cuDriverGetVersion(&version);
    if (version / 1000 < tkjit_cubin_cuda / 1000)
        return error_text("the kernel was compiled for CUDA %d.%d, but the driver supports CUDA %d.%d: update the driver, "
                          "or compile with an older toolkit or NVRTC",
                          tkjit_cubin_cuda / 1000, tkjit_cubin_cuda % 1000 / 10, version / 1000, version % 1000 / 10);
    CaptureMode mode = capture_relaxed;
    made.api.cuThreadExchangeStreamCaptureMode(&mode);
    Result code = made.api.cuLibraryLoadData(&made.library, tkjit_cubin, nullptr, nullptr, 0, nullptr, nullptr, 0);
    const char* what = "cuLibraryLoadData";
    if (code == success) {
        code = made.api.cuLibraryGetKernel(&made.kernel, made.library, tkjit_entry_symbol);
        what = "cuLibraryGetKernel";
    }
    made.api.cuThreadExchangeStreamCaptureMode(&mode);
    return code == success ? nullptr : text_of(what, code);
}

// Loads once, and returns an error text or null. After a failure, the next launch tries again.
inline const char* ensure_loaded() {
    if (!__atomic_load_n(&is_loaded, __ATOMIC_ACQUIRE)) {
        pthread_mutex_lock(&lock);
        const char* error = nullptr;
        if (!is_loaded) {
            error = load(state);
            // a handler, because calling getpid() at each launch would cost 0.1 us
            if (!error && pthread_atfork(nullptr, nullptr, [] { is_forked = true; }))
                error = error_text("out of memory while registering a fork handler");
            if (!error) __atomic_store_n(&is_loaded, true, __ATOMIC_RELEASE);
        }
        pthread_mutex_unlock(&lock);
        if (error) return error;
    }
    if (is_forked)
        return "CUDA was used before this process was forked, and cannot be used after the fork; start processes by "
               "multiprocessing.set_start_method(\"spawn\")";
    return nullptr;
}

// Makes a device's primary context current, unless a context of that device already is, and restores the previous one.
class ContextGuard {
public:
    explicit ContextGuard(int32_t ordinal) {
        const Api& api = state.api;
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
        if (is_pushed_) state.api.cuCtxPopCurrent_v2(&popped);
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
        const Result refused = state.api.cuDevicePrimaryCtxRetain(&context, device);
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
        state.api.cuThreadExchangeStreamCaptureMode(&mode);
        if (state.api.cuDevicePrimaryCtxGetState(device, &flags, &is_active) == success && is_active)
            retain_primary(ordinal, context);
        state.api.cuThreadExchangeStreamCaptureMode(&mode);
    }

    bool is_pushed_ = false;
};

// Waits for the launch if launches are synchronous, except while a CUDA graph is captured: then waiting is not allowed.
inline Result finish(Stream stream) {
    if (!synchronous) return success;
    CaptureStatus status = capture_none;
    state.api.cuStreamIsCapturing(stream, &status);
    return status == capture_none ? state.api.cuStreamSynchronize(stream) : success;
}

// Allows the kernel more than 48 KiB of dynamic shared memory, once per device and size.
inline Result allow_shared_memory(int32_t ordinal, Device device, size_t bytes) {
    constexpr size_t without_asking = 48 << 10;
    size_t unknown = 0;
    size_t& allowed = ordinal < max_devices ? allowed_bytes[ordinal] : unknown;
    if (bytes <= without_asking || bytes <= __atomic_load_n(&allowed, __ATOMIC_RELAXED)) return success;
    const Result error = state.api.cuKernelSetAttribute(max_dynamic_shared_size_bytes, int(bytes), state.kernel, device);
    if (error == success) __atomic_store_n(&allowed, bytes, __ATOMIC_RELAXED);
    return error;
}

inline Result launch_kernel(const LaunchShape& shape, void** parameters, Stream stream, Device device) {
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
            const Result refused = state.api.cuKernelSetAttribute(non_portable_cluster_size_allowed, 1, state.kernel, device);
            if (refused != success) return refused;
        }
    }
    if (shape.overlaps) add(programmatic_stream_serialization).flag = 1;
    if (shape.cooperative) add(cooperative).flag = 1;
    return state.api.cuLaunchKernelEx(&config, state.kernel, parameters, nullptr);
}

}  // namespace tkjit::driver

namespace tkjit {

template <class... Parameters, class... Arguments>
const char* launch(DeviceKernel<Parameters...>, const LaunchShape& shape, int32_t device, void* stream,
                   Arguments&&... arguments) {
    if (shape.error || shape.empty) return shape.error;
    if (const char* const error = driver::ensure_loaded()) return with_shape(error, shape);
    const driver::ContextGuard guard(device);
    const auto failed = [&](const char* what, driver::Result code) { return with_shape(driver::text_of(what, code), shape); };
    if (guard.error) return failed(guard.what, guard.error);
    if (const driver::Result refused = driver::allow_shared_memory(device, guard.device, shape.shared_memory_bytes))
        return failed("dynamic shared memory", refused);

    return [&](Parameters... values) -> const char* {
        void* pointers[] = {const_cast<void*>(static_cast<const void*>(&values))..., nullptr};
        const auto on = static_cast<driver::Stream>(stream);
        if (const driver::Result error = driver::launch_kernel(shape, pointers, on, guard.device)) return failed("launch", error);
        const driver::Result later = driver::finish(on);
        return later == driver::success ? nullptr : failed("kernel", later);
    }(std::forward<Arguments>(arguments)...);
}

// Launches a kernel with plain parameters: one TkjitArg for each.
template <class... Parameters>
const char* launch_with_arguments(DeviceKernel<Parameters...> kernel, const LaunchShape& shape, int32_t device, void* stream,
                                  const TkjitArg* args) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
        return launch(kernel, shape, device, stream, convert<Parameters>(args[I])...);
    }(std::index_sequence_for<Parameters...>{});
}

template <class... Parameters>
const char* check_arguments(DeviceKernel<Parameters...>, const TkjitArg* args, std::initializer_list<const char*> names) {
    return check_parameters<Parameters...>(args, names);
}

}  // namespace tkjit
