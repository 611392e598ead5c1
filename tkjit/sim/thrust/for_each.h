// The simulator's `<thrust/for_each.h>`.
#pragma once

#include "detail/elementwise.h"
