// The simulator's `<thrust/gather.h>`.
#pragma once

#include "detail/elementwise.h"
