// The simulator's `<thrust/iterator/iterator_traits.h>`.
#pragma once

#include "../detail/iterators.h"
