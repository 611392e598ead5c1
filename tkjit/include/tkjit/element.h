// Equivalent C++ types: for some number formats, torch and CUDA each define their own type.
#pragma once

#include <type_traits>

namespace tkjit {

template <class T>
struct torch_type_of {
    using type = T;
};
/// torch's type for the elements of a variant: `kernel<tkjit::torch_type<T>>`. It differs from `T` only in a source with
/// `headers="torch"`: it is `c10::Half` for `__half`, and likewise for `__nv_bfloat16` and the two fp8 formats.
template <class T>
using torch_type = typename torch_type_of<T>::type;

/// Whether a pointer to `Pointee` can point to elements of the spec's type `Element`.
template <class Pointee, class Element>
constexpr bool is_element = std::is_same_v<Pointee, Element> || std::is_same_v<Pointee, torch_type<Element>>;

}  // namespace tkjit
