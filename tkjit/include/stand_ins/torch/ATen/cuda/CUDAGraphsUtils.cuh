// What kernels with random numbers need of torch; see tkjit/torch/generator.h.
#pragma once

#include <tkjit/torch/generator.h>

#include <ATen/cuda/PhiloxUtils.cuh>
