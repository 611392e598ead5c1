// The simulator's `<thrust/reduce.h>`.
#pragma once

#include "detail/reductions.h"
