// The functions that make vectors are in cuda_runtime.h.
#pragma once

#include "cuda_runtime.h"
