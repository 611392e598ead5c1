// What older sources include instead of cuda_fp16.h.
#pragma once

#include "cuda_fp16.h"
