// The simulator's `<thrust/transform_reduce.h>`.
#pragma once

#include "detail/reductions.h"
