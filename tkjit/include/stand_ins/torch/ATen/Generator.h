// Random numbers on CUDA; see tkjit/torch/generator.h.
#pragma once

#include <tkjit/torch/generator.h>
