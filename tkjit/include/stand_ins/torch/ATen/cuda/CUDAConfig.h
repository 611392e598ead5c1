// Replaces a header of torch for CUDA; see tkjit/torch/cuda.h.
#pragma once

#include <tkjit/torch/cuda.h>
