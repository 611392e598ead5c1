// The simulator's `<thrust/scan.h>`.
#pragma once

#include "detail/reductions.h"
