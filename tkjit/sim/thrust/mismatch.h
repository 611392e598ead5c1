// The simulator's `<thrust/mismatch.h>`.
#pragma once

#include "detail/reductions.h"
