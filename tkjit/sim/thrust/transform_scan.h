// The simulator's `<thrust/transform_scan.h>`.
#pragma once

#include "detail/reductions.h"
