// The simulator's `<thrust/adjacent_difference.h>`.
#pragma once

#include "detail/elementwise.h"
