// The name by which older sources include cuda_fp16.h.
#pragma once

#include "cuda_fp16.h"
