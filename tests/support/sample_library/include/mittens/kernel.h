// A generic kernel, whose template argument defines its layout, threads, shared memory and body.
#pragma once

#include <cuda_runtime.h>

#include <concepts>

namespace mittens {

template <class Template>
concept kernel_template = requires {
    typename Template::layout::globals;
    typename Template::shared;
    { Template::threads } -> std::convertible_to<int>;
};

template <kernel_template Template>
inline constexpr int threads_v = Template::threads;

template <class Template>
__global__ __launch_bounds__(Template::threads) void kernel(const __grid_constant__ typename Template::layout::globals g) {
    static_assert(kernel_template<Template>, "a kernel's template has a layout, shared and threads");
    __shared__ typename Template::shared shared;
    Template::run(g, shared);
}

}  // namespace mittens
