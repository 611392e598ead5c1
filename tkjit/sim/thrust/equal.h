// The simulator's `<thrust/equal.h>`.
#pragma once

#include "detail/reductions.h"
