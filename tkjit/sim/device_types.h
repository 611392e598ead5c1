// The types of the device are in cuda_runtime.h.
#pragma once

#include "cuda_runtime.h"
