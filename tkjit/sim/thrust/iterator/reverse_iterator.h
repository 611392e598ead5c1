// The simulator's `<thrust/iterator/reverse_iterator.h>`.
#pragma once

#include "../detail/iterators.h"
