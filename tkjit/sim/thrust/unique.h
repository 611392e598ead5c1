// The simulator's `<thrust/unique.h>`.
#pragma once

#include "detail/orders.h"
