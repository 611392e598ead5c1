// torch's own complex numbers, which need nothing else of it.
#pragma once

#include <tkjit/torch/scalar_type.h>

#ifdef TKJIT_SIM  // which has none of Thrust's
#pragma push_macro("__CUDACC__")
#undef __CUDACC__
#endif
#include_next <c10/util/complex.h>
#ifdef TKJIT_SIM
#pragma pop_macro("__CUDACC__")
#endif
