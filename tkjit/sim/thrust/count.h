// The simulator's `<thrust/count.h>`.
#pragma once

#include "detail/reductions.h"
