// The simulator's `<thrust/device_free.h>`.
#pragma once

#include "detail/memory.h"
#include "detail/execution.h"
