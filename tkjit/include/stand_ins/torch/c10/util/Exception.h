// Replaces a header of torch; see tkjit/torch/check.h.
#pragma once

#include <tkjit/torch/check.h>

#include <torch/headeronly/macros/Macros.h>
