// The simulator's `<thrust/system/omp/execution_policy.h>`.
#pragma once

#include "../../detail/execution.h"
