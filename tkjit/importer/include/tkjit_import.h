// Helpers for the importer's questions about the types of a source. The parsed text includes this header and then the
// source, and ends with the questions. The concepts for layouts and parallel layouts are those of a launcher.
#pragma once

#include <cuda_runtime.h>

#include <tkjit/convert.h>

#include <cstddef>
#include <tuple>
#include <type_traits>

namespace tkjit_import {

template <class Function>
struct arguments;
template <class Result, class... Parameters>
struct arguments<Result (*)(Parameters...)> {
    using type = std::tuple<std::remove_cvref_t<Parameters>...>;
};
template <class Result, class... Parameters>
struct arguments<Result (*)(Parameters...) noexcept> {
    using type = std::tuple<std::remove_cvref_t<Parameters>...>;
};
template <class Function, size_t Index>
using parameter = std::tuple_element_t<Index, typename arguments<Function>::type>;

// Forces the compiler to complete the types of a function's parameters.
template <class... Parameters>
constexpr size_t size(std::tuple<Parameters...>*) {
    return (sizeof(Parameters) + ... + 0);
}
template <class Function>
constexpr size_t size_of_parameters = size(static_cast<typename arguments<Function>::type*>(nullptr));

template <class T>
struct element_of {
    using type = void;
};
template <tkjit::global_layout T>
struct element_of<T> {
    using type = std::remove_cv_t<typename T::dtype>;
};
template <tkjit::parallel_layout T>
struct element_of<T> {
    using type = std::remove_cv_t<typename T::GL::dtype>;
};

template <class T>
constexpr int extent(int axis) {
    if constexpr (tkjit::parallel_layout<T>) return tkjit::static_extents<typename T::GL>::value[axis];
    else return tkjit::static_extents<T>::value[axis];
}
template <class T>
constexpr int num_devices() {
    if constexpr (tkjit::parallel_layout<T>) return int(T::num_devices);
    else return 0;
}

template <class T>
concept has_grid = requires(T& globals) { dim3(globals.grid()); };
template <class T>
concept has_block = requires(T& globals) { dim3(globals.block()); };
template <class T>
concept has_dynamic_shared_memory = requires(T& globals) { (long long)(globals.dynamic_shared_memory()); };

}  // namespace tkjit_import
