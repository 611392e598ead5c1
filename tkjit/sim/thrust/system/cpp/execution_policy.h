// The simulator's `<thrust/system/cpp/execution_policy.h>`.
#pragma once

#include "../../detail/execution.h"
