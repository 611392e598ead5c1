// The simulator's `<thrust/partition.h>`.
#pragma once

#include "detail/orders.h"
