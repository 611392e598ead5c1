// The simulator's `<thrust/generate.h>`.
#pragma once

#include "detail/elementwise.h"
