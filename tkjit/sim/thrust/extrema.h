// The simulator's `<thrust/extrema.h>`.
#pragma once

#include "detail/reductions.h"
