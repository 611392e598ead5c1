// The simulator's `<thrust/copy.h>`.
#pragma once

#include "detail/elementwise.h"
#include "detail/orders.h"
