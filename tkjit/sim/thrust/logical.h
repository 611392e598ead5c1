// The simulator's `<thrust/logical.h>`.
#pragma once

#include "detail/reductions.h"
