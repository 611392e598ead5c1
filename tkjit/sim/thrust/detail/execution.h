// Decides where Thrust's algorithms run: on a device as a kernel of one thread, on the host as a plain call.
#pragma once

#include "../../cuda_runtime.h"
#include "memory.h"

#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace thrust {

class system_error : public std::runtime_error {
  public:
    system_error(cudaError_t error) : std::runtime_error(cudaGetErrorString(error)) {}
};

namespace detail {

struct policy {};
/// Accepts and ignores allocators and streams.
struct device_policy : policy {
    template <class Something>
    device_policy on(const Something&) const {
        return {};
    }
    template <class Something>
    device_policy operator()(const Something&) const {
        return {};
    }
};
struct host_policy : policy {
    template <class Something>
    host_policy operator()(const Something&) const {
        return {};
    }
};

template <class T>
constexpr bool is_policy = std::is_base_of_v<policy, std::decay_t<T>>;

/// Whether an iterator refers to device memory. Iterators that are made of others have a member `is_on_device`.
template <class T>
constexpr bool is_on_device = requires { requires T::is_on_device; };
template <class T>
constexpr bool is_on_device<device_ptr<T>> = true;

/// Runs a function, as a kernel if it is `on_device`, and returns its result.
template <class Function>
decltype(auto) run(bool on_device, Function function) {
    using Result = decltype(function());
    if (!on_device || tkjit::sim::current_block) return function();
    const auto launch = [](const auto& body) {
        const cudaError_t error = tkjit::sim::launch_configured({dim3(1), dim3(1), 0, tkjit::sim::Site::here()}, body);
        if (error != cudaSuccess) throw system_error(error);
    };
    if constexpr (std::is_void_v<Result>) {
        launch(function);
    } else {
        std::vector<Result> result;
        launch([&] { result.push_back(function()); });
        return Result(result.front());
    }
}

/// Calls an algorithm with its arguments, of which the first may be a policy.
template <class Algorithm, class First, class... Rest>
decltype(auto) dispatch(const Algorithm& algorithm, First&& first, Rest&&... rest) {
    if constexpr (is_policy<First>) {
        return run(std::is_base_of_v<device_policy, std::decay_t<First>>, [&] { return algorithm(rest...); });
    } else {
        const bool on_device = (is_on_device<std::decay_t<First>> || ... || is_on_device<std::decay_t<Rest>>);
        return run(on_device, [&] { return algorithm(first, rest...); });
    }
}

}  // namespace detail

using device_execution_policy = detail::device_policy;
using host_execution_policy = detail::host_policy;
inline constexpr detail::device_policy device{};
inline constexpr detail::host_policy host{}, seq{};

namespace cuda {
inline constexpr detail::device_policy par{}, par_nosync{};
template <class Derived>
using execution_policy = detail::device_policy;
}  // namespace cuda
namespace cpp {
inline constexpr detail::host_policy par{};
}
namespace omp {
inline constexpr detail::host_policy par{};
}
namespace system::cuda {
using thrust::cuda::par;
}

}  // namespace thrust
