// The simulator's `<thrust/complex.h>`: the standard library's complex numbers.
#pragma once

#include <complex>

namespace thrust {

template <class T>
using complex = std::complex<T>;
using std::abs;
using std::arg;
using std::conj;
using std::cos;
using std::exp;
using std::log;
using std::norm;
using std::polar;
using std::pow;
using std::sin;
using std::sqrt;

}  // namespace thrust
