// Replaces a header of pybind11; see tkjit/torch/module.h.
#pragma once

#include <tkjit/torch/module.h>
