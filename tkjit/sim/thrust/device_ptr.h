// The simulator's `<thrust/device_ptr.h>`.
#pragma once

#include "detail/memory.h"
#include "detail/execution.h"
