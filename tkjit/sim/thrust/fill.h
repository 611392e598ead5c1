// The simulator's `<thrust/fill.h>`.
#pragma once

#include "detail/elementwise.h"
