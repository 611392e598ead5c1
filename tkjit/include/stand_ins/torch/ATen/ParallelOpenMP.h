// Replaces a header of torch; see tkjit/torch/parallel.h.
#pragma once

#include <tkjit/torch/parallel.h>
