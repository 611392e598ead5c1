// The handle of cuSOLVER, which sources name without calling it.
#pragma once

#include <cuda_runtime.h>

struct cusolverDnContext;
typedef cusolverDnContext* cusolverDnHandle_t;
