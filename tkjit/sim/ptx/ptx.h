// One function for each instruction of inline PTX, for the calls that ptx/translate.py writes.
#pragma once

#include "arithmetic.h"
#include "memory.h"
#include "multicast.h"
#include "synchronisation.h"
#include "tcgen05.h"
#include "tensors.h"
