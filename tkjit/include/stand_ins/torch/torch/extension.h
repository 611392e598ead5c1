// What a source needs of torch and pybind11; see tkjit/torch/tensor.h.
#pragma once

#include <tkjit/torch/dispatch.h>
#include <tkjit/torch/library.h>
#include <tkjit/torch/module.h>
