// Replaces a header of torch; see tkjit/torch/ivalue.h.
#pragma once

#include <tkjit/torch/ivalue.h>
