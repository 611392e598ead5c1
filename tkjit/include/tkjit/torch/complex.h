// c10::complex from torch's header-only part.
#pragma once

#include <torch/headeronly/macros/Macros.h>
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

// If __CUDACC__ is defined, complex.h includes Thrust, which costs nvcc 2.5 s and is missing in the simulator. A source
// that mentions complex numbers defines TKJIT_TORCH_COMPLEX.
#if defined(TKJIT_TORCH_COMPLEX) && !defined(TKJIT_SIM)
#include <torch/headeronly/util/complex.h>
#else
#pragma push_macro("__CUDACC__")
#undef __CUDACC__
#include <torch/headeronly/util/complex.h>
#pragma pop_macro("__CUDACC__")
#endif
