// Replaces a header of torch; see tkjit/torch/tensor.h.
#pragma once

#include <ATen/Dispatch.h>
#include <tkjit/torch/functional.h>
#include <tkjit/torch/library.h>
#include <tkjit/torch/module.h>
#include <tkjit/torch/parallel.h>
#include <tkjit/torch/tensor.h>
#include <tkjit/torch/tensor_utils.h>
