// The simulator's `<thrust/swap.h>`.
#pragma once

#include "detail/values.h"
