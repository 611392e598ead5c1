// The simulator's `<thrust/tuple.h>`.
#pragma once

#include "detail/values.h"
