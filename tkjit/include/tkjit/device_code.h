// Connects the two halves of a launcher whose device code is compiled separately from its host code.
//
// The text of such a launcher is compiled twice. NVRTC compiles the kernel and stores a description of it in the cubin.
// The C++ compiler then compiles the rest with that description, which tkjit writes to the generated file
// `device_code.inc`. nvcc compiles the same text in one go and needs no description.
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

#ifdef __CUDACC_RTC__

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

}  // namespace detail

// The descriptions in the cubin; tkjit/compile/cubin.py reads them.
#define TKJIT_MARK_ENTRY(...)     extern "C" __device__ constexpr auto tkjit_parameters = tkjit::detail::parameters_of<decltype(&__VA_ARGS__)>{};
#define TKJIT_SAME_LAYOUT(...) extern "C" __device__ constexpr size_t tkjit_layout[] = {__VA_ARGS__};

#else

// The kernel in the cubin, with the types of its parameters.
template <class... Parameters>
struct DeviceKernel {};

// Whether the host and device compilers lay out a struct alike: its size, alignment and field offsets.
template <size_t Count>
constexpr bool is_same_layout(const size_t (&a)[Count], const size_t (&b)[Count]) {
    for (size_t i = 0; i < Count; ++i) {
        if (a[i] != b[i]) return false;
    }
    return true;
}

// TKJIT_KERNEL(kernel) is the expression that the launch function uses for the kernel.
#ifdef TKJIT_HOST_HALF
#define TKJIT_KERNEL(...) tkjit::EntryKernel{}
#define TKJIT_SAME_LAYOUT(...)                                              \
    static_assert(tkjit::is_same_layout(tkjit::device_layout, {__VA_ARGS__}), \
                  "tkjit: the C++ compiler and NVRTC lay out the struct of globals differently");
#else
#define TKJIT_KERNEL(...) __VA_ARGS__
#define TKJIT_SAME_LAYOUT(...)
#endif

#endif

}  // namespace tkjit
