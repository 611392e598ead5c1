// Declares the handle of cuSOLVER, which sources mention without calling the library.
#pragma once

#if __has_include_next(<cusolverDn.h>)
#include_next <cusolverDn.h>
#else

#include <cuda_runtime.h>

struct cusolverDnContext;
typedef cusolverDnContext* cusolverDnHandle_t;

#endif  // the toolkit has no such header
