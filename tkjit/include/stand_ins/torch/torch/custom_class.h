// Replaces a header of torch; see tkjit/torch/library.h.
#pragma once

#include <tkjit/torch/library.h>
