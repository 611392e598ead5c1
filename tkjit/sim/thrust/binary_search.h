// The simulator's `<thrust/binary_search.h>`.
#pragma once

#include "detail/orders.h"
