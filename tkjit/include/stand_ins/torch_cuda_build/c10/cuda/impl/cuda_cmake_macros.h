// A CPU build of torch has every header of a CUDA build except this one, which the build generates.
#pragma once

#define C10_CUDA_BUILD_SHARED_LIBS
