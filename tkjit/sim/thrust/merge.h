// The simulator's `<thrust/merge.h>`.
#pragma once

#include "detail/orders.h"
