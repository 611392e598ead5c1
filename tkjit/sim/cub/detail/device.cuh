// The base of algorithms for a whole device: a launch of one thread does the work.
#pragma once

#include "../config.cuh"
#include "../thread/thread_operators.cuh"
#include "../util_type.cuh"

#include <concepts>
#include <iterator>
#include <type_traits>

namespace cub::detail {

using tkjit::sim::Site;

/// CUB's two phases: without temporary storage, returns its size; with it, runs `work` as a kernel.
template <class Work>
cudaError_t on_device(void* temp_storage, size_t& temp_storage_bytes, Site site, const Work& work) {
    constexpr size_t needed_bytes = 1;
    if (temp_storage == nullptr) {
        temp_storage_bytes = needed_bytes;
        return cudaSuccess;
    }
    if (temp_storage_bytes < needed_bytes) return tkjit::sim::remember_error(cudaErrorInvalidValue);
    return tkjit::sim::launch_configured({dim3(1), dim3(1), 0, site}, work);
}

template <class Op, class Init, class Input>
using accumulator_t = std::decay_t<std::invoke_result_t<Op&, Init, Input>>;

/// The type of the values that an iterator accepts, or `Otherwise` if it accepts values of every type.
template <class Iterator, class Otherwise>
using output_t = std::conditional_t<std::is_void_v<value_t<Iterator>>, Otherwise, value_t<Iterator>>;

template <class Iterator, class Op, class Init, class Size>
auto sum_up(Iterator input, Size begin, Size end, Op op, Init init) {
    accumulator_t<Op, Init, value_t<Iterator>> total = init;
    for (Size i = begin; i < end; i++) total = op(total, input[i]);
    return total;
}

}  // namespace cub::detail
