// Casts for autocast: see tkjit/torch/dispatch_guards.h.
#pragma once

#include <tkjit/torch/tensor.h>
