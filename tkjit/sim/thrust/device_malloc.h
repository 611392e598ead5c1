// The simulator's `<thrust/device_malloc.h>`.
#pragma once

#include "detail/memory.h"
#include "detail/execution.h"
