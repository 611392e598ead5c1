// The types that stand for one format: torch has its own where CUDA has one too.
#pragma once

#include <type_traits>

namespace tkjit {

template <class T>
struct torch_type_of {
    using type = T;
};
/// What torch calls the elements of a variant: `kernel<tkjit::torch_type<T>>`. In a source with `headers="torch"` alone it
/// is another type than `T`: `c10::Half` for `__half`, and so for `__nv_bfloat16` and the two fp8 formats.
template <class T>
using torch_type = typename torch_type_of<T>::type;

/// Whether a pointer to `Pointee` may be one to elements of a spec's.
template <class Pointee, class Element>
constexpr bool is_element = std::is_same_v<Pointee, Element> || std::is_same_v<Pointee, torch_type<Element>>;

}  // namespace tkjit
