// Replaces a header of torch; see tkjit/torch/tensor_utils.h.
#pragma once

#include <tkjit/torch/tensor_utils.h>
