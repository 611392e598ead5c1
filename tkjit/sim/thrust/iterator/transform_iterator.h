// The simulator's `<thrust/iterator/transform_iterator.h>`.
#pragma once

#include "../detail/iterators.h"
