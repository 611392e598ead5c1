/* axpy and softmax as C functions, exported by tkjit.
 *
 * Each function checks its arguments and launches a kernel. It returns null, or an error to be freed with
 * tkjit_free_error(). On a GPU it does not wait: the kernel runs in `stream`, a cudaStream_t of the tensors'
 * device; null is the default stream. On the CPU it returns when the kernel is done, and `stream` is null.
 *
 * If an output is zeroed, the function allocates it, and it then belongs to the caller. NAME_shape()
 * describes such an output without allocating it. NAME_pointers() takes pointers to row-major tensors, and
 * their extents; it allocates no outputs.
 */
#ifndef LAYERS_H
#define LAYERS_H

#include "layers/tensors.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LAYERS_VERSION "1.0"
#define LAYERS_INTERFACE "tensors=1 version=1 axpy=c43760d9f8f2 softmax=5623a2fff3a4"

/* Returns an error if the library does not match this header. */
TKJIT_API tkjit_error layers_check_interface(const char* interface);

/* ---- axpy ----------------------------------------------------------------------------------------------------------
 *
 * Computes alpha * x + y in place.
 *
 * Parameters
 * ----------
 * x : (N,) float32, bfloat16 or float16
 * y : (N,) of x's dtype; overwritten and returned
 * alpha : the factor of x
 */
TKJIT_API tkjit_error layers_axpy(const tkjit_tensor* x, const tkjit_tensor* y, double alpha,
    void* stream);
TKJIT_API tkjit_error layers_axpy_pointers(const void* x, void* y, double alpha, int64_t N,
    tkjit_dtype T, tkjit_device device, void* stream);

/* ---- softmax -------------------------------------------------------------------------------------------------------
 *
 * Computes exp(x - max(x)) / sum(exp(x - max(x))) along the last dimension.
 *
 * Parameters
 * ----------
 * x : (..., N) float32, bfloat16 or float16; computed in float32
 *
 * Returns
 * -------
 * y : (..., N) of x's dtype; each row sums to 1
 *
 * Notes
 * -----
 * The maximum and the sum are found in one pass over the row. Source: Milakov and Gimelshein, "Online normalizer
 * calculation for softmax", 2018.
 */
TKJIT_API tkjit_error layers_softmax(const tkjit_tensor* x, tkjit_tensor* y, void* stream);
TKJIT_API tkjit_error layers_softmax_shape(const tkjit_tensor* x, tkjit_tensor* y);
TKJIT_API tkjit_error layers_softmax_pointers(const void* x, void* y, int32_t leading_ndim,
    const int64_t* leading_sizes, int64_t N, tkjit_dtype T, tkjit_device device, void* stream);

#ifdef __cplusplus
}
#endif

#endif /* LAYERS_H */
