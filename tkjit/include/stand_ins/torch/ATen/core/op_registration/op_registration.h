// What a source needs of torch; see tkjit/torch/library.h.
#pragma once

#include <tkjit/torch/library.h>
