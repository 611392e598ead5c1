// The simulator's `<thrust/inner_product.h>`.
#pragma once

#include "detail/reductions.h"
