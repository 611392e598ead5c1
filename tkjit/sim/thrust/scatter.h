// The simulator's `<thrust/scatter.h>`.
#pragma once

#include "detail/elementwise.h"
