// What a source needs of torch to register operators; see tkjit/torch/library.h.
#pragma once

#include <tkjit/torch/library.h>
