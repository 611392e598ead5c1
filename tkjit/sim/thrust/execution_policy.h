// The simulator's `<thrust/execution_policy.h>`.
#pragma once

#include "detail/execution.h"
