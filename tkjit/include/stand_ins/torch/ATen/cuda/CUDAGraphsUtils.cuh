// The part of torch's header that kernels with random numbers need; see tkjit/torch/generator.h.
#pragma once

#include <tkjit/torch/generator.h>

#include <ATen/cuda/PhiloxUtils.cuh>
