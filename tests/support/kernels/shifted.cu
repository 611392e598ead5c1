// Uses a header next to the source, a header from include_dirs=, and a define.
#include "beside.h"
#include <shift.h>

__global__ void shifted(const __grid_constant__ Globals g) { g.x[threadIdx.x] += kBeside + kShift + STEP; }
