// The simulator's `<thrust/zip_function.h>`.
#pragma once

#include "detail/iterators.h"
