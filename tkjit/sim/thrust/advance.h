// The simulator's `<thrust/advance.h>`.
#pragma once

#include "detail/iterators.h"
