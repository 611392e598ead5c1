// The simulator's `device_launch_parameters.h`: its variables are in cuda_runtime.h.
#pragma once

#include "cuda_runtime.h"
