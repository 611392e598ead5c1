// PYBIND11_MODULE for a source that uses at::Tensor of tensor.h.
#pragma once

#include "tensor.h"

#ifdef TKJIT_TORCH_IN_KERNEL
#include "no_module.h"
#else
#include "autograd.h"
#include "python.h"
#endif
