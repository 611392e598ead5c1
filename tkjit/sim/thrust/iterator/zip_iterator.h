// The simulator's `<thrust/iterator/zip_iterator.h>`.
#pragma once

#include "../detail/iterators.h"
