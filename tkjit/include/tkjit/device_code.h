// A kernel whose device code is compiled apart from the launcher's host code: what the two halves say of each other.
//
// The text of such a launcher is read twice. NVRTC compiles the kernel and a description of it, which lies in the cubin;
// the C++ compiler compiles the rest, with what was found there in the generated file `device_code.inc`. Under nvcc, which
// takes the same text at once, there is no description.
#pragma once

#include <stddef.h>

#include <type_traits>

namespace tkjit {

// What one parameter of an entry is.
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

// A list that ends with a parameter of no bytes.
template <class Kernel>
struct parameters_of;
template <class... Given>
struct parameters_of<void (*)(Given...)> {
    Parameter all[sizeof...(Given) + 1] = {
        {kind_of<std::remove_cv_t<Given>>(), static_cast<unsigned short>(sizeof(Given))}..., {}};
};

}  // namespace detail

// The descriptions in the cubin, which tkjit/compile/cubin.py reads.
#define TKJIT_MARK_ENTRY(...)     extern "C" __device__ constexpr auto tkjit_parameters = tkjit::detail::parameters_of<decltype(&__VA_ARGS__)>{};
#define TKJIT_SAME_LAYOUT(...) extern "C" __device__ constexpr size_t tkjit_layout[] = {__VA_ARGS__};

#else

// The kernel in the cubin, by the types of its parameters.
template <class... Parameters>
struct DeviceKernel {};

// Whether the host's compiler lays a struct out as the device's does: its size, its alignment, its fields' offsets.
template <size_t Count>
constexpr bool is_same_layout(const size_t (&a)[Count], const size_t (&b)[Count]) {
    for (size_t i = 0; i < Count; ++i) {
        if (a[i] != b[i]) return false;
    }
    return true;
}

// How the launch function names the kernel.
#ifdef TKJIT_HOST_HALF
#define TKJIT_KERNEL(...) tkjit::EntryKernel{}
#define TKJIT_SAME_LAYOUT(...)                                              \
    static_assert(tkjit::is_same_layout(tkjit::device_layout, {__VA_ARGS__}), \
                  "tkjit: the C++ compiler lays the struct of globals out in another way than NVRTC");
#else
#define TKJIT_KERNEL(...) __VA_ARGS__
#define TKJIT_SAME_LAYOUT(...)
#endif

#endif

}  // namespace tkjit
