// The name by which older sources include cuda_bf16.h.
#pragma once

#include "cuda_bf16.h"
