// torch's own complex numbers. Their mathematical functions need Thrust, so they are included only for sources that
// mention complex numbers.
#pragma once

#include <tkjit/torch/complex.h>

#if defined(TKJIT_TORCH_COMPLEX) && !defined(TKJIT_SIM)
#include_next <c10/util/complex.h>
#else
#include <complex>
#define C10_INTERNAL_INCLUDE_COMPLEX_REMAINING_H
#include <c10/util/complex_utils.h>
#undef C10_INTERNAL_INCLUDE_COMPLEX_REMAINING_H
#endif
