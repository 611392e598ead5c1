/* Tensors, errors, devices and streams, shared by all libraries that `python -m tkjit export` makes.
 *
 * A function returns null, or an error: a text that you free with tkjit_free_error(). Any function may be called from any
 * thread; threads share only the memory of tensors.
 */
#ifndef TKJIT_TENSORS_H
#define TKJIT_TENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef TKJIT_API
#define TKJIT_API
#endif

/* The version of the structs below. Functions reject a tensor of another version instead of misreading it. */
#define TKJIT_TENSOR_ABI 0x746b0001u
#define TKJIT_MAX_NDIM 8

/* Element types. A complex number is its real part, then its imaginary part; float4_e2m1fn_x2 is two numbers in a byte. */
#ifndef TKJIT_ARG_H
enum {
    TKJIT_BOOL,
    TKJIT_UINT8,
    TKJIT_INT8,
    TKJIT_UINT16,
    TKJIT_INT16,
    TKJIT_UINT32,
    TKJIT_INT32,
    TKJIT_UINT64,
    TKJIT_INT64,
    TKJIT_FLOAT16,
    TKJIT_BFLOAT16,
    TKJIT_FLOAT32,
    TKJIT_FLOAT64,
    TKJIT_FLOAT8_E4M3FN,
    TKJIT_FLOAT8_E5M2,
    TKJIT_FLOAT8_E8M0FNU,
    TKJIT_FLOAT4_E2M1FN_X2,
    TKJIT_COMPLEX64,
    TKJIT_COMPLEX128
};
enum { TKJIT_CPU, TKJIT_CUDA };
#endif
typedef int32_t tkjit_dtype;

/* "float32"; or "an unknown dtype". */
TKJIT_API const char* tkjit_dtype_name(tkjit_dtype dtype);
/* Bytes of an element; 0 for an unknown dtype. */
TKJIT_API int64_t tkjit_dtype_size(tkjit_dtype dtype);

/* A device: TKJIT_CPU, or TKJIT_CUDA with the index of a GPU. */
typedef struct tkjit_device {
    int32_t type;
    int32_t index;
} tkjit_device;

static inline tkjit_device tkjit_cpu(void) {
    tkjit_device device = {0, 0};
    return device;
}
static inline tkjit_device tkjit_cuda(int32_t index) {
    tkjit_device device;
    device.type = 1;
    device.index = index;
    return device;
}

/* ---- errors ---------------------------------------------------------------------------------------------------------- */

/* A text that the caller owns; null on success. */
typedef char* tkjit_error;

/* The kinds of errors, which match Python's exceptions: an argument of the wrong type, dtype, device or layout; extents
 * that contradict each other; a failed launch or kernel; out of memory. */
enum { TKJIT_ARGUMENT_ERROR = 1, TKJIT_SHAPE_ERROR = 2, TKJIT_LAUNCH_ERROR = 3, TKJIT_MEMORY_ERROR = 4 };

TKJIT_API int tkjit_error_kind(tkjit_error error); /* 0 for null */
TKJIT_API void tkjit_free_error(tkjit_error error);
/* Makes an error of your own, with a copy of the text. */
TKJIT_API tkjit_error tkjit_error_new(int kind, const char* text);

/* ---- tensors --------------------------------------------------------------------------------------------------------- */

/* A tensor, like DLPack's DLTensor. `sizes` and `strides` have `ndim` numbers; strides are in elements. A zeroed struct is
 * not a tensor: passed as an output, it asks the function to allocate memory. Copies of the struct are views of the same
 * memory. */
typedef struct tkjit_tensor {
    uint32_t abi; /* TKJIT_TENSOR_ABI */
    bool read_only;
    tkjit_dtype dtype;
    int32_t ndim;
    tkjit_device device;
    void* data;
    int64_t sizes[TKJIT_MAX_NDIM];
    int64_t strides[TKJIT_MAX_NDIM];
    void* memory;        /* the owner of the data; null if the caller owns it */
    uint64_t generation; /* of that memory: it changes when the memory is freed */
} tkjit_tensor;

/* Functions that fill `tensor` neither read nor free its previous content. */

/* Allocates memory, row-major and uninitialised. `tensor` becomes its owner: free it once. */
TKJIT_API tkjit_error tkjit_tensor_new(tkjit_tensor* tensor, tkjit_dtype dtype, tkjit_device device, int32_t ndim,
                                       const int64_t* sizes);
/* Makes a tensor of the caller's memory, which must outlive the tensor. Null strides mean row-major. */
TKJIT_API tkjit_error tkjit_tensor_view(tkjit_tensor* tensor, void* data, tkjit_dtype dtype, tkjit_device device,
                                        int32_t ndim, const int64_t* sizes, const int64_t* strides);
/* Frees the memory that the tensor owns, and zeroes the tensor. Zeroed tensors are ignored; freeing a copy of a freed tensor
 * is an error. */
TKJIT_API tkjit_error tkjit_tensor_free(tkjit_tensor* tensor);
/* Copies all elements, also between devices. Both tensors are row-major and have the same dtype and shape. Returns when the
 * copy is complete. */
TKJIT_API tkjit_error tkjit_tensor_copy(const tkjit_tensor* to, const tkjit_tensor* from, void* stream);
/* The bytes from the first to the last element; 0 if there are no elements. */
TKJIT_API int64_t tkjit_tensor_bytes(const tkjit_tensor* tensor);
/* Whether the tensor is row-major. */
TKJIT_API bool tkjit_tensor_is_contiguous(const tkjit_tensor* tensor);

/* DLPack. The first function turns the content of a capsule "dltensor_versioned" into a tensor that owns it. The second
 * turns a tensor into the content of such a capsule, which then owns the memory, and zeroes the tensor. */
struct DLManagedTensorVersioned;
TKJIT_API tkjit_error tkjit_tensor_from_dlpack(tkjit_tensor* tensor, struct DLManagedTensorVersioned* managed);
TKJIT_API tkjit_error tkjit_tensor_to_dlpack(tkjit_tensor* tensor, struct DLManagedTensorVersioned** managed);

/* ---- devices and streams ----------------------------------------------------------------------------------------------- */

/* The number of GPUs; 0 without a driver, and in a library that is for the CPU only. */
TKJIT_API int32_t tkjit_device_count(void);
/* A stream is a cudaStream_t, or null on the CPU. A new stream synchronises with the default stream in both directions. */
TKJIT_API tkjit_error tkjit_stream_new(tkjit_device device, void** stream);
TKJIT_API tkjit_error tkjit_stream_free(tkjit_device device, void* stream);
/* Waits until everything launched in a stream is done. */
TKJIT_API tkjit_error tkjit_stream_wait(tkjit_device device, void* stream);

#ifdef __cplusplus
}
#endif

#endif /* TKJIT_TENSORS_H */
