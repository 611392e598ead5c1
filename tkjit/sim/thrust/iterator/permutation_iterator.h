// The simulator's `<thrust/iterator/permutation_iterator.h>`.
#pragma once

#include "../detail/iterators.h"
