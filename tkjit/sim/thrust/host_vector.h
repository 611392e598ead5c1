// The simulator's `<thrust/host_vector.h>`.
#pragma once

#include "detail/memory.h"
#include "detail/execution.h"
