// The simulator's `<thrust/iterator/constant_iterator.h>`.
#pragma once

#include "../detail/iterators.h"
