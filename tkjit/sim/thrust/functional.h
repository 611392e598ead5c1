// The simulator's `<thrust/functional.h>`.
#pragma once

#include "detail/values.h"
