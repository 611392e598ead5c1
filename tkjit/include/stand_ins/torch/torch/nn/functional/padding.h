// Replaces a header of torch; see tkjit/torch/functional.h.
#pragma once

#include <tkjit/torch/functional.h>
