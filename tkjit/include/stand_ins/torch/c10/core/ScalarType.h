// torch's own header, included after tkjit's checks and complex numbers.
#pragma once

#include <tkjit/torch/check.h>
#include <tkjit/torch/complex.h>

#include_next <c10/core/ScalarType.h>
