// Replaces a header of torch; see tkjit/torch/dict.h.
#pragma once

#include <tkjit/torch/dict.h>
