// The simulator's `<thrust/reverse.h>`.
#pragma once

#include "detail/elementwise.h"
