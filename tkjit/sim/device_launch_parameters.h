// The simulator's `device_launch_parameters.h`: what host code includes it for is in cuda_runtime.h.
#pragma once

#include "cuda_runtime.h"
