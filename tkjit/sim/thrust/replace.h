// The simulator's `<thrust/replace.h>`.
#pragma once

#include "detail/elementwise.h"
