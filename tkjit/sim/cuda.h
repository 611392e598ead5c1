// The driver's header. The simulator has no driver, and sources that include it mostly call none of its functions.
#pragma once

#include "cuda_runtime.h"
