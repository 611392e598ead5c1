// Describes a kernel that NVRTC compiles: constants in the cubin, which tkjit/loader/device_code.py reads.
#pragma once

#include <stddef.h>

#include <type_traits>

namespace tkjit {

// The kind of an entry's parameter.
enum class ParameterKind : unsigned char { other, pointer, boolean, signed_integer, unsigned_integer, floating };

struct Parameter {
    ParameterKind kind;
    unsigned short bytes;
};

namespace detail {

template <class T>
constexpr ParameterKind kind_of() {
    using enum ParameterKind;
    if constexpr (std::is_pointer_v<T>) return pointer;
    else if constexpr (std::is_same_v<T, bool>) return boolean;
    else if constexpr (std::is_floating_point_v<T>) return floating;
    else if constexpr (std::is_integral_v<T>) return std::is_signed_v<T> ? signed_integer : unsigned_integer;
    else return other;
}

// The parameters, followed by one whose size is zero.
template <class Kernel>
struct parameters_of;
template <class... Given>
struct parameters_of<void (*)(Given...)> {
    Parameter all[sizeof...(Given) + 1] = {
        {kind_of<std::remove_cv_t<Given>>(), static_cast<unsigned short>(sizeof(Given))}..., {}};
};

template <class Kernel, class Struct>
inline constexpr int parameters_after = -1;
template <class Struct, class... Rest>
inline constexpr int parameters_after<void (*)(Struct, Rest...), Struct> = sizeof...(Rest);

}  // namespace detail

// Whether a kernel takes the struct and then `count` other parameters.
template <class Kernel, class Struct, int count>
constexpr bool takes_struct() {
    return detail::parameters_after<Kernel, Struct> == count;
}

#define TKJIT_MARK_ENTRY(...) \
    extern "C" __device__ constexpr auto tkjit_parameters = tkjit::detail::parameters_of<decltype(&__VA_ARGS__)>{};

// The offsets and sizes in the struct that a launch program needs.
#define TKJIT_LAYOUT(...) extern "C" __device__ constexpr size_t tkjit_layout[] = {__VA_ARGS__};

}  // namespace tkjit
