// The simulator's `<thrust/memory.h>`.
#pragma once

#include "detail/memory.h"
#include "detail/execution.h"
