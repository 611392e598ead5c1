// What a source needs of torch on CUDA; see tkjit/torch/cuda.h.
#pragma once

#include <tkjit/torch/cuda.h>
