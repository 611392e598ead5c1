// Replaces a header of torch; see tkjit/torch/tensor.h.
#pragma once

#include <tkjit/torch/tensor.h>
