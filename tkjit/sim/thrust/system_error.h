// The simulator's `<thrust/system_error.h>`.
#pragma once

#include "detail/execution.h"
