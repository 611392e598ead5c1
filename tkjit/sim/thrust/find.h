// The simulator's `<thrust/find.h>`.
#pragma once

#include "detail/reductions.h"
