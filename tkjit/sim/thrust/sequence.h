// The simulator's `<thrust/sequence.h>`.
#pragma once

#include "detail/elementwise.h"
