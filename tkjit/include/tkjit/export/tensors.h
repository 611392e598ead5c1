/* Tensors, errors, devices and streams of the libraries that `python -m tkjit export` makes: what all of them share.
 *
 * Each function returns null, or an error: a text to be freed with tkjit_free_error(). Nothing here is shared between
 * threads but the memory of tensors; any function may be called from any thread.
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

/* The version of the structs below. A tensor of another version is refused, and not misread. */
#define TKJIT_TENSOR_ABI 0x746b0001u
#define TKJIT_MAX_NDIM 8

/* Element types. A complex number is its real and its imaginary part; float4_e2m1fn_x2 is two numbers in a byte. */
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

/* "float32"; "an unknown dtype" for what is none. */
TKJIT_API const char* tkjit_dtype_name(tkjit_dtype dtype);
/* Bytes of an element; 0 for what is no dtype. */
TKJIT_API int64_t tkjit_dtype_size(tkjit_dtype dtype);

/* A device: TKJIT_CPU, or TKJIT_CUDA with the number of a GPU. */
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

/* A text that belongs to who gets it; null where all is well. */
typedef char* tkjit_error;

/* What an error is, as the exceptions of Python are: an argument of the wrong type, dtype, device or layout; extents that
 * contradict each other; a launch that failed, or the kernel; no memory. */
enum { TKJIT_ARGUMENT_ERROR = 1, TKJIT_SHAPE_ERROR = 2, TKJIT_LAUNCH_ERROR = 3, TKJIT_MEMORY_ERROR = 4 };

TKJIT_API int tkjit_error_kind(tkjit_error error); /* 0 for null */
TKJIT_API void tkjit_free_error(tkjit_error error);
/* An error of one's own, with a copy of the text. */
TKJIT_API tkjit_error tkjit_error_new(int kind, const char* text);

/* ---- tensors --------------------------------------------------------------------------------------------------------- */

/* A tensor, as DLPack's DLTensor: `sizes` and `strides`, in elements, have `ndim` numbers. Zeroed it is none: as an output it
 * then says that memory is to be allocated. Copies of it are views of the same memory. */
typedef struct tkjit_tensor {
    uint32_t abi; /* TKJIT_TENSOR_ABI */
    bool read_only;
    tkjit_dtype dtype;
    int32_t ndim;
    tkjit_device device;
    void* data;
    int64_t sizes[TKJIT_MAX_NDIM];
    int64_t strides[TKJIT_MAX_NDIM];
    void* memory;        /* what owns the data; null where the caller does */
    uint64_t generation; /* of that memory: it is another once the memory was freed */
} tkjit_tensor;

/* What `tensor` held before a function fills it is not looked at, and not freed. */

/* New memory, row-major, not initialised. `tensor` becomes its owner: free it once. */
TKJIT_API tkjit_error tkjit_tensor_new(tkjit_tensor* tensor, tkjit_dtype dtype, tkjit_device device, int32_t ndim,
                                       const int64_t* sizes);
/* Memory of the caller's, which has to outlive the tensor. Null strides are row-major. */
TKJIT_API tkjit_error tkjit_tensor_view(tkjit_tensor* tensor, void* data, tkjit_dtype dtype, tkjit_device device,
                                        int32_t ndim, const int64_t* sizes, const int64_t* strides);
/* Frees what the tensor owns, and zeroes it; a zeroed one is left alone. A copy of a tensor that was freed is an error. */
TKJIT_API tkjit_error tkjit_tensor_free(tkjit_tensor* tensor);
/* Copies all elements, between devices too. Both are row-major, of one dtype and shape. Returns when they are there. */
TKJIT_API tkjit_error tkjit_tensor_copy(const tkjit_tensor* to, const tkjit_tensor* from, void* stream);
/* The bytes from the first to the last element; 0 for none. */
TKJIT_API int64_t tkjit_tensor_bytes(const tkjit_tensor* tensor);
/* Whether it is row-major. */
TKJIT_API bool tkjit_tensor_is_contiguous(const tkjit_tensor* tensor);

/* DLPack: what a capsule "dltensor_versioned" holds becomes a tensor that owns it, and a tensor becomes what such a capsule
 * holds, which then owns its memory; the tensor is zeroed. */
struct DLManagedTensorVersioned;
TKJIT_API tkjit_error tkjit_tensor_from_dlpack(tkjit_tensor* tensor, struct DLManagedTensorVersioned* managed);
TKJIT_API tkjit_error tkjit_tensor_to_dlpack(tkjit_tensor* tensor, struct DLManagedTensorVersioned** managed);

/* ---- devices and streams ----------------------------------------------------------------------------------------------- */

/* How many GPUs there are; 0 without a driver, and for a library that is for the CPU alone. */
TKJIT_API int32_t tkjit_device_count(void);
/* A stream is a cudaStream_t, on the CPU null. One that is made here waits for the default stream, and that for it. */
TKJIT_API tkjit_error tkjit_stream_new(tkjit_device device, void** stream);
TKJIT_API tkjit_error tkjit_stream_free(tkjit_device device, void* stream);
/* Waits until all that was launched in a stream is done. */
TKJIT_API tkjit_error tkjit_stream_wait(tkjit_device device, void* stream);

#ifdef __cplusplus
}
#endif

#endif /* TKJIT_TENSORS_H */
