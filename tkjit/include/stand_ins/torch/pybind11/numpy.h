// Replaces a header of pybind11; see tkjit/torch/module.h.
#pragma once

#include <tkjit/torch/module.h>
#ifndef TKJIT_TORCH_IN_KERNEL
#include <tkjit/torch/python_numpy.h>
#endif
