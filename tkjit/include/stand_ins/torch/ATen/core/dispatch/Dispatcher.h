// Replaces a header of torch; see tkjit/torch/dispatcher.h.
#pragma once

#include <tkjit/torch/dispatcher.h>
