// The simulator's `<thrust/universal_vector.h>`.
#pragma once

#include "detail/memory.h"
#include "detail/execution.h"
