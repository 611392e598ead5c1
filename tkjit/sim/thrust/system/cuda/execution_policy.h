// The simulator's `<thrust/system/cuda/execution_policy.h>`.
#pragma once

#include "../../detail/execution.h"
