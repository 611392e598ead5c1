// The simulator's `<thrust/device_vector.h>`.
#pragma once

#include "detail/memory.h"
#include "detail/execution.h"
