// The simulator's `<thrust/pair.h>`.
#pragma once

#include "detail/values.h"
