// The simulator's `<thrust/device_reference.h>`.
#pragma once

#include "detail/memory.h"
#include "detail/execution.h"
