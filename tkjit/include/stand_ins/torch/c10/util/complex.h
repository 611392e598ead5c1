// torch's own complex numbers. On a GPU their mathematical functions need Thrust, so they are included only for sources that
// mention complex numbers. In the simulator, they use the C++ library's functions.
#pragma once

#include <tkjit/torch/complex.h>

#if defined(TKJIT_SIM)
#pragma push_macro("__CUDACC__")
#undef __CUDACC__
#include_next <c10/util/complex.h>
#pragma pop_macro("__CUDACC__")
#elif defined(TKJIT_TORCH_COMPLEX)
#include_next <c10/util/complex.h>
#else
#include <complex>
#if __has_include(<c10/util/complex_utils.h>)
#define C10_INTERNAL_INCLUDE_COMPLEX_REMAINING_H
#include <c10/util/complex_utils.h>
#undef C10_INTERNAL_INCLUDE_COMPLEX_REMAINING_H
#else  // torch 2.14
namespace c10 {
using torch::headeronly::is_complex;
using torch::headeronly::scalar_value_type;
}  // namespace c10
#endif
#endif
