// The simulator's `<thrust/iterator/counting_iterator.h>`.
#pragma once

#include "../detail/iterators.h"
