// Replaces a header of torch; see tkjit/torch/tensor.h.
#pragma once

#include <ATen/Dispatch.h>
#include <tkjit/torch/parallel.h>
#include <tkjit/torch/tensor.h>
#include <tkjit/torch/tensor_utils.h>
#ifdef TKJIT_TORCH_LIBRARY
#include <tkjit/torch/library.h>
#endif
