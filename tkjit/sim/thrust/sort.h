// The simulator's `<thrust/sort.h>`.
#pragma once

#include "detail/orders.h"
