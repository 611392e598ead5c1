// The simulator's `<thrust/system/system_error.h>`.
#pragma once

#include "../detail/execution.h"
