// The simulator's `<thrust/tabulate.h>`.
#pragma once

#include "detail/elementwise.h"
