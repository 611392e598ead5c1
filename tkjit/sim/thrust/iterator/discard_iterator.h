// The simulator's `<thrust/iterator/discard_iterator.h>`.
#pragma once

#include "../detail/iterators.h"
