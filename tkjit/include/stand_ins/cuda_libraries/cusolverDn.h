// The handle of cuSOLVER, which sources name without calling it.
#pragma once

#if __has_include_next(<cusolverDn.h>)
#include_next <cusolverDn.h>
#else

#include <cuda_runtime.h>

struct cusolverDnContext;
typedef cusolverDnContext* cusolverDnHandle_t;

#endif  // the toolkit has none
