// What a source needs of torch; see tkjit/torch/functional.h.
#pragma once

#include <tkjit/torch/functional.h>
