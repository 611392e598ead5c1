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
#define C10_INTERNAL_INCLUDE_COMPLEX_REMAINING_H
#include <c10/util/complex_utils.h>
#undef C10_INTERNAL_INCLUDE_COMPLEX_REMAINING_H
#endif
