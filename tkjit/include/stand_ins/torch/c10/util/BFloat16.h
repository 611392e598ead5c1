// What a source needs of torch; see tkjit/torch/scalar_type.h.
#pragma once

#include <tkjit/torch/scalar_type.h>
