// A CPU build of torch has every header of its CUDA build but this one, which the build writes.
#pragma once

#define C10_CUDA_BUILD_SHARED_LIBS
