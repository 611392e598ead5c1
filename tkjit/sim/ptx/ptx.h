// What inline PTX becomes: one function for each instruction, called by what ptx/translate.py writes.
#pragma once

#include "arithmetic.h"
#include "memory.h"
#include "multicast.h"
#include "synchronisation.h"
#include "tensors.h"
