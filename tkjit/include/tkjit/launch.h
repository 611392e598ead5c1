// Launches a kernel: on a CUDA device through the CUDA runtime, on the CPU through the simulator.
#pragma once

#include <tkjit/launch_shape.h>
#include <cuda_runtime.h>
#ifndef TKJIT_SIM
#include <tkjit/lost_device.h>
#endif

#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <utility>

// Marks the kernel that the launcher launches, by making it the template argument of entry_marker. ptxas reports on every
// kernel of a file by its mangled name, and compile/resources.py finds the right one by this marker.
#ifdef TKJIT_SIM
#define TKJIT_MARK_ENTRY(...)
#else
#define TKJIT_MARK_ENTRY(...) \
    [[gnu::used]] static const char* const tkjit_marked_entry = &tkjit::entry_marker<__VA_ARGS__>;
#endif

// With TKJIT_SYNC=1 a launch waits for its kernel, so that an error belongs to this launch. The variable is not inline,
// because all launchers of a process would share an inline one. Only the launchers of an export share theirs.
extern "C" {
#ifdef TKJIT_LINKED
extern int32_t tkjit_synchronous;
#else
TKJIT_EXPORT int32_t tkjit_synchronous = 0;
TKJIT_EXPORT extern const int32_t tkjit_abi = TKJIT_ABI;
#endif
}

namespace tkjit {

inline const int32_t& synchronous = tkjit_synchronous;

template <auto Entry>
inline constexpr char entry_marker = 0;

namespace detail {

// Calls a host function, with the stream as its last argument if it takes one. Returns an error text if the function
// returns a cudaError_t other than success, else null. Any other result is ignored.
template <class Function, class... Arguments>
const char* host_result(Function&& function, void* stream, Arguments&&... arguments) {
    const auto call = [&] {
        if constexpr (std::is_invocable_v<Function, Arguments..., cudaStream_t>)
            return function(std::forward<Arguments>(arguments)..., static_cast<cudaStream_t>(stream));
        else
            return function(std::forward<Arguments>(arguments)...);
    };
    if constexpr (std::is_same_v<decltype(call()), cudaError_t>) {
        const cudaError_t error = call();
        if (error == cudaSuccess) return nullptr;
        return error_text("the host function returned error %d: %s", int(error), cudaGetErrorString(error));
    } else {
        call();
        return nullptr;
    }
}

}  // namespace detail

// Wrappers for host functions: KeepNothing returns the function unchanged, and KeepNumber stores the function's result at
// `place`, unless that is null.
struct KeepNothing {
    template <class Function>
    Function operator()(Function function) const {
        return function;
    }
};
template <class Number>
struct KeepNumber {
    void* place;

    template <class Result, class... Parameters>
    auto operator()(Result (*function)(Parameters...)) const {
        constexpr bool is_real = std::is_floating_point_v<Number>, is_truth = std::is_same_v<Number, bool>;
        static_assert(std::is_arithmetic_v<Result> && is_real == std::is_floating_point_v<Result> &&
                          is_truth == std::is_same_v<Result, bool>,
                      "the host function returns a different type from the one that its spec declares");
        return [function, number = static_cast<Number*>(place)]<class... Arguments>(Arguments&&... arguments)
            requires std::is_invocable_v<Result (*)(Parameters...), Arguments...>
        {
            const Result result = function(std::forward<Arguments>(arguments)...);
            if (number) *number = static_cast<Number>(result);
        };
    }
};

#ifdef TKJIT_SIM

template <class... Parameters, class... Arguments>
const char* launch(void (*kernel)(Parameters...), const LaunchShape& shape, int32_t, void*, Arguments&&... arguments) {
    if (shape.error || shape.empty) return shape.error;
    const sim::LaunchMode mode{shape.cooperative, shape.cluster, shape.overlaps};
    const char* const error = sim::launch_with(mode, kernel, shape.grid, shape.block, shape.shared_memory_bytes,
                                               static_cast<Parameters>(std::forward<Arguments>(arguments))...);
    return error ? with_shape(error, shape) : nullptr;
}

template <class Function, class... Arguments>
const char* call_host(Function&& function, int32_t, void* stream, Arguments&&... arguments) {
    cudaGetLastError();  // an earlier call's error must not be blamed on this one
    const char* const own = detail::host_result(function, stream, std::forward<Arguments>(arguments)...);
    if (own) return own;
    const cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

#else

namespace detail {

inline const char* cuda_error(const char* what, cudaError_t code) {
    cudaGetLastError();  // a sticky error stays; any other must not be blamed on the next call
    const char* const lost =
        !loses_device(code) ? ""
        : synchronous       ? "; the device is lost to this process, which must be restarted"
                            : "; the device is lost to this process, which must be restarted; this launch or an "
                              "earlier one is the cause, and TKJIT_SYNC=1 shows which";
    return error_text("%s: %s (%s)%s", what, cudaGetErrorString(code), cudaGetErrorName(code), lost);
}

// Waits for the launch if launches are synchronous, except while a CUDA graph is captured: then waiting is not allowed.
inline cudaError_t finish(void* stream) {
    if (!synchronous) return cudaSuccess;
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &status);
    return status == cudaStreamCaptureStatusNone ? cudaStreamSynchronize(static_cast<cudaStream_t>(stream)) : cudaSuccess;
}

// Makes a device current, and restores the previous one.
class DeviceGuard {
public:
    explicit DeviceGuard(int32_t device) {
        error = cudaGetDevice(&before_);
        if (error == cudaSuccess && before_ != device) {
            error = cudaSetDevice(device);
            changed_ = error == cudaSuccess;
        }
    }
    ~DeviceGuard() {
        if (changed_) cudaSetDevice(before_);
    }
    DeviceGuard(const DeviceGuard&) = delete;
    DeviceGuard& operator=(const DeviceGuard&) = delete;

    cudaError_t error;

private:
    int before_ = 0;
    bool changed_ = false;
};

// Allows a kernel more than 48 KiB of dynamic shared memory, once per device and size, because the call costs 0.4 us.
// It avoids std::atomic: in C++20 <atomic> includes 190 headers, and each launcher would depend on them.
inline cudaError_t allow_shared_memory(const void* kernel, size_t* allowed, size_t bytes) {
    constexpr size_t without_asking = 48 << 10;
    if (bytes <= without_asking || bytes <= __atomic_load_n(allowed, __ATOMIC_RELAXED)) return cudaSuccess;
    const cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
    if (error == cudaSuccess) __atomic_store_n(allowed, bytes, __ATOMIC_RELAXED);
    return error;
}

// Allows clusters of more than 8 blocks, which not every GPU of an architecture can place.
inline cudaError_t allow_cluster(const void* kernel, const LaunchShape& shape) {
    constexpr unsigned portable = 8;
    if (shape.cluster.x * shape.cluster.y * shape.cluster.z <= portable) return cudaSuccess;
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
}

inline cudaError_t launch_kernel(const void* kernel, const LaunchShape& shape, void** arguments, cudaStream_t stream) {
    const size_t bytes = shape.shared_memory_bytes;
    if (!shape.clustered() && !shape.overlaps)
        return shape.cooperative ? cudaLaunchCooperativeKernel(kernel, shape.grid, shape.block, arguments, bytes, stream)
                                 : cudaLaunchKernel(kernel, shape.grid, shape.block, arguments, bytes, stream);
    cudaLaunchAttribute attributes[3];
    cudaLaunchConfig_t config{shape.grid, shape.block, bytes, stream, attributes, 0};
    const auto add = [&](cudaLaunchAttributeID id) -> cudaLaunchAttributeValue& {
        attributes[config.numAttrs].id = id;
        return attributes[config.numAttrs++].val;
    };
    if (shape.clustered()) {
        auto& cluster = add(cudaLaunchAttributeClusterDimension).clusterDim;
        cluster.x = shape.cluster.x;
        cluster.y = shape.cluster.y;
        cluster.z = shape.cluster.z;
    }
    if (shape.overlaps) add(cudaLaunchAttributeProgrammaticStreamSerialization).programmaticStreamSerializationAllowed = 1;
    if (shape.cooperative) add(cudaLaunchAttributeCooperative).cooperative = 1;
    const cudaError_t refused = allow_cluster(kernel, shape);
    return refused != cudaSuccess ? refused : cudaLaunchKernelExC(&config, kernel, arguments);
}

}  // namespace detail

template <class... Parameters, class... Arguments>
const char* launch(void (*kernel)(Parameters...), const LaunchShape& shape, int32_t device, void* stream,
                   Arguments&&... arguments) {
    if (shape.error || shape.empty) return shape.error;
    const detail::DeviceGuard guard(device);
    const auto failed = [&](const char* what, cudaError_t code) { return with_shape(detail::cuda_error(what, code), shape); };
    if (guard.error != cudaSuccess) return failed("cudaSetDevice", guard.error);

    constexpr int max_devices = 64;
    static size_t allowed[max_devices];  // one launcher holds one kernel
    size_t unknown = 0;
    const auto function = reinterpret_cast<const void*>(kernel);
    const cudaError_t refused = detail::allow_shared_memory(
        function, device < max_devices ? &allowed[device] : &unknown, shape.shared_memory_bytes);
    if (refused != cudaSuccess) return failed("dynamic shared memory", refused);

    return [&](Parameters... values) -> const char* {
        void* pointers[] = {const_cast<void*>(static_cast<const void*>(&values))..., nullptr};
        const cudaError_t error = detail::launch_kernel(function, shape, pointers, static_cast<cudaStream_t>(stream));
        if (error != cudaSuccess) return failed("launch", error);
        const cudaError_t later = detail::finish(stream);
        return later == cudaSuccess ? nullptr : failed("kernel", later);
    }(std::forward<Arguments>(arguments)...);
}

// Calls a host function, which launches kernels itself. It may take the stream as its last parameter.
template <class Function, class... Arguments>
const char* call_host(Function&& function, int32_t device, void* stream, Arguments&&... arguments) {
    const detail::DeviceGuard guard(device);
    if (guard.error != cudaSuccess) return detail::cuda_error("cudaSetDevice", guard.error);
    const char* const own = detail::host_result(function, stream, std::forward<Arguments>(arguments)...);
    if (own) return own;
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) return detail::cuda_error("launch", error);
    const cudaError_t later = detail::finish(stream);
    return later == cudaSuccess ? nullptr : detail::cuda_error("kernel", later);
}

#endif  // TKJIT_SIM

// An error text if an argument does not fit its parameter, else null.
template <class Result, class... Parameters>
const char* check_arguments(Result (*)(Parameters...), const TkjitArg* args, std::initializer_list<const char*> names) {
    return check_parameters<Parameters...>(args, names);
}

// Launches a kernel with plain parameters: one TkjitArg for each.
template <class... Parameters>
const char* launch_with_arguments(void (*kernel)(Parameters...), const LaunchShape& shape, int32_t device, void* stream,
                                  const TkjitArg* args) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
        return launch(kernel, shape, device, stream, convert<Parameters>(args[I])...);
    }(std::index_sequence_for<Parameters...>{});
}

namespace detail {

template <class Parameter>
std::remove_cvref_t<Parameter> host_argument(const TkjitArg* arg, void* stream) {
    if constexpr (std::is_same_v<std::remove_cvref_t<Parameter>, cudaStream_t>) return static_cast<cudaStream_t>(stream);
    else return convert<std::remove_cvref_t<Parameter>>(*arg);
}

}  // namespace detail

template <class Result, class... Parameters, class Keep = KeepNothing>
const char* call_host_with_arguments(Result (*function)(Parameters...), int32_t device, void* stream, const TkjitArg* args,
                                     Keep keep = {}) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
        // the stream comes last and has no TkjitArg: for it, args + I is past the end and is not read
        const auto call = [&] { return keep(function)(detail::host_argument<Parameters>(args + I, stream)...); };
        return call_host(call, device, nullptr);
    }(std::index_sequence_for<Parameters...>{});
}

// Launch parameters that the struct computes if the spec does not set them: grid() and block(), which return something
// that converts to dim3, and optionally dynamic_shared_memory() in bytes. They need not be const.
template <class Globals>
void use_own_grid(LaunchShape& shape, Globals& globals) {
    static_assert(requires { dim3(globals.grid()); }, "the struct has no grid(), and the spec gives no grid");
    shape.set_grid(dim3(globals.grid()));
}
template <class Globals>
void use_own_block(LaunchShape& shape, Globals& globals) {
    static_assert(requires { dim3(globals.block()); }, "the struct has no block(), and the spec gives no block");
    shape.set_block(dim3(globals.block()));
}
template <class Globals>
void use_own_shared_memory(LaunchShape& shape, Globals& globals) {
    if constexpr (requires { Int(globals.dynamic_shared_memory()); })
        shape.set_shared_memory(Int(globals.dynamic_shared_memory()));
}


// ---- entries whose launch parameters a struct of constants holds -----------------------------------------------------
//
// The convention of ThunderKittens' launch_kernel<config, globals, kernel>: the entry is a __device__ function, and a
// struct has NUM_THREADS and optionally NUM_BLOCKS, DYNAMIC_SHARED_MEMORY, CLUSTER_SIZE, MIN_BLOCKS_PER_SM and USE_PDL.

template <class Config>
constexpr int min_blocks_per_sm() {
    if constexpr (requires { Config::MIN_BLOCKS_PER_SM; }) return Config::MIN_BLOCKS_PER_SM;
    else return 1;
}

template <class Config, class Globals, auto Entry>
__global__ __launch_bounds__(Config::NUM_THREADS, min_blocks_per_sm<Config>()) void configured(
    const __grid_constant__ Globals globals) {
    Entry(globals);
}

template <class Config, class Globals>
void use_config_grid(LaunchShape& shape, Globals& globals) {
    if constexpr (requires { Config::NUM_BLOCKS; }) shape.set_grid(Int(Config::NUM_BLOCKS));
    else use_own_grid(shape, globals);
}
template <class Config, class Globals>
void use_config_block(LaunchShape& shape, Globals&) {
    shape.set_block(Int(Config::NUM_THREADS));
}
template <class Config, class Globals>
void use_config_shared_memory(LaunchShape& shape, Globals& globals) {
    if constexpr (requires { Config::DYNAMIC_SHARED_MEMORY; }) shape.set_shared_memory(Int(Config::DYNAMIC_SHARED_MEMORY));
    else use_own_shared_memory(shape, globals);
}
template <class Config>
void use_config_cluster(LaunchShape& shape) {
    if constexpr (requires { Config::CLUSTER_SIZE; }) shape.cluster = dim3(Config::CLUSTER_SIZE);
    if constexpr (requires { Config::USE_PDL; }) shape.overlaps = Config::USE_PDL;
}

}  // namespace tkjit
