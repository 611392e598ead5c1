// Replaces a header of torch; see tkjit/torch/logging.h.
#pragma once

#include <tkjit/torch/logging.h>
