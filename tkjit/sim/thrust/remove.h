// The simulator's `<thrust/remove.h>`.
#pragma once

#include "detail/orders.h"
