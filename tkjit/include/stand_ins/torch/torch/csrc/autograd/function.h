// torch::autograd::Function; see tkjit/torch/autograd.h. A launcher gets stubs instead.
#pragma once

#include <tkjit/torch/module.h>
