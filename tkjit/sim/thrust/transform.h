// The simulator's `<thrust/transform.h>`.
#pragma once

#include "detail/elementwise.h"
