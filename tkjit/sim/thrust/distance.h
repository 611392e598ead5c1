// The simulator's `<thrust/distance.h>`.
#pragma once

#include "detail/iterators.h"
