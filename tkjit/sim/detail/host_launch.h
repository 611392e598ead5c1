// Launches from host code: the replacements for `kernel<<<grid, block>>>(x)` and `extern __shared__` (source/adapt.py),
// and the runtime's own launch functions. A launch has finished when it returns. If it failed, its error is the host
// thread's last error.
#pragma once

#include "block.h"
#include "fault.h"
#include "host_errors.h"
#include "language.h"
#include "launch.h"
#include "site.h"
#include "vector_types.h"

#include <stddef.h>

namespace tkjit::sim {

/// Returns the running block's dynamic shared memory, as any type: `extern __shared__ T name[]` becomes a reference to
/// it.
struct DynamicShared {
    template <class T>
    operator T&() const {
        return *reinterpret_cast<T*>(current_block->dynamic_shared);
    }
};
inline constexpr DynamicShared dynamic_shared;

struct LaunchConfiguration {
    dim3 grid, block;
    size_t dynamic_shared_bytes;
    Site site;
    LaunchMode mode = {};
};

template <class Body>
struct HostLaunch {
    const Body* body;
    mutable bool begun;  // false if the launch was rejected
};
template <class Body>
__attribute__((no_sanitize("thread"))) void run_launched(const void* address) {
    const auto& own = *static_cast<const HostLaunch<Body>*>(address);
    __atomic_store_n(&own.begun, true, __ATOMIC_RELAXED);
    run_threads<Body>(own.body);
}

/// Runs `body` in every thread of a grid.
template <class Body>
cudaError_t launch_configured(const LaunchConfiguration& configuration, const Body& body) {
    if (current_block) fail(configuration.site, "a kernel cannot launch a kernel in the simulator");
    const HostLaunch<Body> own{&body, false};
    const char* const text = launch_body(run_launched<Body>, &own, configuration.grid, configuration.block,
                                         configuration.dynamic_shared_bytes, configuration.mode);
    const cudaError_t usual = own.begun ? cudaErrorLaunchFailure : cudaErrorInvalidConfiguration;
    const cudaError_t code = launch_error_code ? static_cast<cudaError_t>(launch_error_code) : usual;
    return remember_launch(code, text, configuration.site);
}

/// Adds the cluster that the kernel's declaration asks for.
inline LaunchConfiguration for_kernel(LaunchConfiguration configuration, const void* kernel) {
    configuration.mode = with_declared_cluster(configuration.mode, kernel);
    return configuration;
}

/// Launches a kernel that is selected by its arguments: a template, or one of several overloads.
template <class Call>
struct ConfiguredCall {
    const Call& call;
    LaunchConfiguration configuration;

    template <class... Arguments>
    void operator()(const Arguments&... values) const {
        launch_configured(configuration, [&] { call(values...); });
    }
};

/// Launches a kernel whose parameters are known. Each argument is converted once, at the call.
template <class Call, class... Parameters>
struct ConfiguredKernel {
    const Call& call;
    void (*kernel)(Parameters...);
    LaunchConfiguration configuration;

    void operator()(Parameters... values) const {
        const auto body = [call = call, values...] { call(values...); };
        launch_configured(for_kernel(configuration, reinterpret_cast<const void*>(kernel)), body);
    }
    /// For a call that omits the last parameters: a pointer to the kernel does not know their defaults.
    template <class... Arguments>
        requires(sizeof...(Arguments) < sizeof...(Parameters))
    void operator()(const Arguments&... values) const {
        ConfiguredCall<Call>{call, configuration}(values...);
    }
};

/// Deduces the parameters of a kernel that is a single function. For a template without its arguments, deduction fails.
struct AsFunction {
    template <class... Parameters>
    auto operator()(void (*kernel)(Parameters...)) const {
        return kernel;
    }
};

template <class Call, class... Parameters>
ConfiguredKernel<Call, Parameters...> configured(const Call& call, void (*kernel)(Parameters...),
                                                 const LaunchConfiguration& configuration) {
    return {call, kernel, configuration};
}

/// Launches through a pointer if the kernel's name denotes one function. The name of a template or of overloads is called
/// instead, so that the arguments of the launch select the kernel.
template <class Function, class Call>
struct Launcher {
    Function function;
    Call call;

    auto operator()(dim3 grid, dim3 block, size_t dynamic_shared_bytes = 0, cudaStream_t = nullptr,
                    Site site = Site::here()) const {
        const LaunchConfiguration configuration{grid, block, dynamic_shared_bytes, site};
        if constexpr (requires(AsFunction as) { function(as); }) {
            return configured(call, function(AsFunction()), configuration);
        } else {
            return ConfiguredCall<Call>{call, configuration};
        }
    }
};
template <class Function, class Call>
Launcher(Function, Call) -> Launcher<Function, Call>;

/// Lets the arguments of the launch select the kernel, always.
template <class Call>
struct LauncherOfCall {
    Call call;

    auto operator()(dim3 grid, dim3 block, size_t dynamic_shared_bytes = 0, cudaStream_t = nullptr,
                    Site site = Site::here()) const {
        return ConfiguredCall<Call>{call, {grid, block, dynamic_shared_bytes, site}};
    }
};
template <class Call>
LauncherOfCall(Call) -> LauncherOfCall<Call>;

}  // namespace tkjit::sim

// source/preprocessed.py runs after the preprocessor, so it writes what the second definition would expand to.
#ifdef TKJIT_SIM_LAUNCHES_BY_CALL  // for a compiler that fails on the other definition
#define TKJIT_SIM_LAUNCH(...) \
    ::tkjit::sim::LauncherOfCall { [&](const auto&... tkjit_values) { __VA_ARGS__(tkjit_values...); } }
#else
#define TKJIT_SIM_LAUNCH(...)                                                                                        \
    ::tkjit::sim::Launcher{                                                                                          \
        [&](auto tkjit_as) -> decltype(tkjit_as(__VA_ARGS__)) { return tkjit_as(__VA_ARGS__); },                     \
        [&](const auto&... tkjit_values) { __VA_ARGS__(tkjit_values...); }}
#endif

namespace tkjit::sim {

template <class... Types>
struct TypeList {};

/// Calls `call` with values of these types, reading them from the addresses in `arguments`.
template <class Call>
void call_unpacked(TypeList<>, void**, const Call& call) {
    call();
}
template <class First, class... Rest, class Call>
void call_unpacked(TypeList<First, Rest...>, void** arguments, const Call& call) {
    const auto with_first = [&](const auto&... rest) { call(*static_cast<const First*>(*arguments), rest...); };
    call_unpacked(TypeList<Rest...>(), arguments + 1, with_first);
}

template <class... Parameters>
cudaError_t launch_unpacked(void (*kernel)(Parameters...), const LaunchConfiguration& configuration, void** arguments) {
    return launch_configured(for_kernel(configuration, reinterpret_cast<const void*>(kernel)),
                             [&] { call_unpacked(TypeList<Parameters...>(), arguments, kernel); });
}

/// A kernel that a source keeps as a `void*`, and the function that launches it.
struct KernelPointer {
    void* kernel;
    cudaError_t (*launch)(void* kernel, const LaunchConfiguration& configuration, void** arguments);
    KernelPointer* next;
};
inline KernelPointer* kernel_pointers = nullptr;  // never freed

inline const KernelPointer* find_kernel_pointer(const void* kernel) {
    const KernelPointer* found = __atomic_load_n(&kernel_pointers, __ATOMIC_ACQUIRE);
    while (found && found->kernel != kernel) found = found->next;
    return found;
}

/// Replaces `(void*)kernel`.
template <class... Parameters>
void* as_pointer(void (*kernel)(Parameters...)) {
    void* const pointer = reinterpret_cast<void*>(kernel);
    if (find_kernel_pointer(pointer)) return pointer;
    const auto launch = [](void* kernel, const LaunchConfiguration& configuration, void** arguments) {
        return launch_unpacked(reinterpret_cast<void (*)(Parameters...)>(kernel), configuration, arguments);
    };
    auto* const added = new KernelPointer{pointer, launch, __atomic_load_n(&kernel_pointers, __ATOMIC_ACQUIRE)};
    while (!__atomic_compare_exchange_n(&kernel_pointers, &added->next, added, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE)) {}
    return pointer;
}

/// `to_pointer->*expression` is `(void*)expression`, and also remembers the type of a kernel.
struct ToPointer {};
inline constexpr ToPointer to_pointer;
template <class... Parameters>
void* operator->*(ToPointer, void (*kernel)(Parameters...)) {
    return as_pointer(kernel);
}
template <class Result, class... Parameters>
void* operator->*(ToPointer, Result (*function)(Parameters...)) {
    return reinterpret_cast<void*>(function);
}
template <class T>
    requires(!std::is_function_v<T>)
void* operator->*(ToPointer, T* pointer) {
    return const_cast<void*>(static_cast<const volatile void*>(pointer));
}
template <class T>
    requires(!std::is_pointer_v<T> && !std::is_array_v<T>)
void* operator->*(ToPointer, const T& value) {
    return (void*)value;
}

inline cudaError_t launch_pointer(const void* kernel, const LaunchConfiguration& configuration, void** arguments) {
    if (const KernelPointer* const found = find_kernel_pointer(kernel)) return found->launch(found->kernel, configuration, arguments);
    return remember_launch(cudaErrorInvalidDeviceFunction,
                           "the launched pointer is not a kernel that this source has cast to void*",
                           configuration.site);
}

}  // namespace tkjit::sim

/// `arguments` holds the address of each of the kernel's arguments.
template <class... Parameters>
cudaError_t cudaLaunchKernel(void (*kernel)(Parameters...), dim3 grid, dim3 block, void** arguments,
                             size_t dynamic_shared_bytes = 0, cudaStream_t = nullptr,
                             tkjit::sim::Site site = tkjit::sim::Site::here()) {
    return tkjit::sim::launch_unpacked(kernel, {grid, block, dynamic_shared_bytes, site}, arguments);
}

inline cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                                    size_t dynamic_shared_bytes = 0, cudaStream_t = nullptr,
                                    tkjit::sim::Site site = tkjit::sim::Site::here()) {
    return tkjit::sim::launch_pointer(kernel, {grid, block, dynamic_shared_bytes, site}, arguments);
}

template <class... Parameters>
cudaError_t cudaLaunchCooperativeKernel(void (*kernel)(Parameters...), dim3 grid, dim3 block, void** arguments,
                                        size_t dynamic_shared_bytes = 0, cudaStream_t = nullptr,
                                        tkjit::sim::Site site = tkjit::sim::Site::here()) {
    return tkjit::sim::launch_unpacked(kernel, {grid, block, dynamic_shared_bytes, site, true}, arguments);
}

inline cudaError_t cudaLaunchCooperativeKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                                               size_t dynamic_shared_bytes = 0, cudaStream_t = nullptr,
                                               tkjit::sim::Site site = tkjit::sim::Site::here()) {
    return tkjit::sim::launch_pointer(kernel, {grid, block, dynamic_shared_bytes, site, true}, arguments);
}

enum cudaLaunchAttributeID {
    cudaLaunchAttributeIgnore = 0,
    cudaLaunchAttributeCooperative = 2,
    cudaLaunchAttributeClusterDimension = 4,
    cudaLaunchAttributeProgrammaticStreamSerialization = 6,
    cudaLaunchAttributePreferredClusterDimension = 11,
};

union cudaLaunchAttributeValue {
    char padding[64];
    int cooperative;
    struct {
        unsigned x, y, z;
    } clusterDim, preferredClusterDim;
    int programmaticStreamSerializationAllowed;
};

struct cudaLaunchAttribute {
    cudaLaunchAttributeID id;
    cudaLaunchAttributeValue val;
};

struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute* attrs;
    unsigned numAttrs;
};

namespace tkjit::sim {

/// Reads a configuration.
inline LaunchConfiguration read_configuration(const cudaLaunchConfig_t& config, Site site) {
    LaunchConfiguration result{config.gridDim, config.blockDim, config.dynamicSmemBytes, site};
    for (unsigned i = 0; i < config.numAttrs; i++) {
        const cudaLaunchAttributeValue& value = config.attrs[i].val;
        if (config.attrs[i].id == cudaLaunchAttributeCooperative) result.mode.cooperative = value.cooperative != 0;
        if (config.attrs[i].id == cudaLaunchAttributeProgrammaticStreamSerialization) {
            result.mode.is_dependent = value.programmaticStreamSerializationAllowed != 0;
        }
        if (config.attrs[i].id == cudaLaunchAttributeClusterDimension) {
            result.mode.cluster = dim3(value.clusterDim.x, value.clusterDim.y, value.clusterDim.z);
        }
    }
    return result;
}

/// A configuration, and the line on which it was passed. A variadic function cannot take the line as a default
/// argument.
struct SitedConfig {
    const cudaLaunchConfig_t* config;
    Site site;

    SitedConfig(const cudaLaunchConfig_t* config, Site site = Site::here()) : config(config), site(site) {}

    /// From a class that converts to a pointer.
    template <class Config, class = std::enable_if_t<std::is_class_v<Config> &&
                                                     std::is_convertible_v<Config&, const cudaLaunchConfig_t*>>>
    SitedConfig(Config& config, Site site = Site::here()) : config(config), site(site) {}
};

}  // namespace tkjit::sim

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(tkjit::sim::SitedConfig given, void (*kernel)(Parameters...), Arguments&&... arguments) {
    const tkjit::sim::LaunchConfiguration configuration =
        tkjit::sim::for_kernel(tkjit::sim::read_configuration(*given.config, given.site), reinterpret_cast<const void*>(kernel));
    return [&](Parameters... values) {
        return tkjit::sim::launch_configured(configuration, [&] { kernel(values...); });
    }(static_cast<Arguments&&>(arguments)...);
}

template <class... Parameters>
cudaError_t cudaLaunchKernelExC(tkjit::sim::SitedConfig given, void (*kernel)(Parameters...), void** arguments) {
    return tkjit::sim::launch_unpacked(kernel, tkjit::sim::read_configuration(*given.config, given.site), arguments);
}

inline cudaError_t cudaLaunchKernelExC(tkjit::sim::SitedConfig given, const void* kernel, void** arguments) {
    return tkjit::sim::launch_pointer(kernel, tkjit::sim::read_configuration(*given.config, given.site), arguments);
}
