// Complex numbers as results and arguments. A separate header, because <complex> takes longer to compile than bind.h.
#pragma once

#include <complex>

#include <tkjit/bind.h>

namespace tkjit {
namespace bind {

template <class T>
struct Returned<std::complex<T>, void> {
    using Referred = std::complex<T>;
    static constexpr Form form = Form::complex;
    static constexpr bool is_const = false;
    template <class Call>
    static void put(Result& result, const Call& call) {
        const std::complex<T> value = call();
        result.real = value.real();
        result.imaginary = value.imag();
    }
};

template <class T, bool is_const>
struct Passed<Form::complex, T, is_const> {
    using type = std::complex<double>&&;
};

}  // namespace bind
}  // namespace tkjit
