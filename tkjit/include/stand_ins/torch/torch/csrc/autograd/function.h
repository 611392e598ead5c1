// torch::autograd::Function; see tkjit/torch/module.h.
#pragma once

#include <tkjit/torch/module.h>
