// Replaces a header of torch; see tkjit/torch/array_ref.h.
#pragma once

#include <tkjit/torch/array_ref.h>
