// The C ABI of a launcher, between a compiled kernel and the glue or callers in other languages.
#ifndef TKJIT_ARG_H
#define TKJIT_ARG_H

#include <stdint.h>

#define TKJIT_EXPORT __attribute__((visibility("default")))

// Element types, in the order of tkjit/spec/dtypes.py.
typedef enum TkjitDtype {
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
    TKJIT_COMPLEX128,
    TKJIT_DTYPE_COUNT
} TkjitDtype;

// A device argument: a cpu or a CUDA device, -1 for the current one.
typedef enum TkjitDeviceType { TKJIT_CPU, TKJIT_CUDA } TkjitDeviceType;
typedef struct TkjitDevice {
    int32_t type;
    int32_t index;
} TkjitDevice;

// The number of this file's structs and functions: a launcher exports it as the int32_t `tkjit_abi`.
#define TKJIT_ABI 2
#define TKJIT_MAX_RANK 8

// One field. A tensor fills data, rank, its extents, leftmost first, and dtype; where the kernel takes any strides, these
// too, in elements. A scalar fills integer (also for bool, a dtype's TkjitDtype, and a device's index with its type in
// dtype) or real; a string its characters and extents[0]; a list, set or tuple points to its items, and extents[0] says
// how many; a dict points to a key and a value in turns, and extents[0] says how many pairs.
typedef struct TkjitArg {
    union {
        void* data;
        int64_t integer;
        double real;
    };
    int64_t extents[TKJIT_MAX_RANK];
    int64_t strides[TKJIT_MAX_RANK];
    int32_t rank;
    int32_t dtype;
    int32_t present;  // 0: an optional field that was not given
} TkjitArg;

// What the argument of a parallel global layout points to; the extents, which are the same everywhere, are its own.
typedef struct TkjitParallel {
    void* const* data;  // each device's part
    void* multicast;    // null without multicast
    int32_t count;      // how many devices
    int32_t dev_idx;    // which of them this launch is for
} TkjitParallel;

// Launches one variant, without synchronising. `args` are in the order of the struct's fields; `device` is the ordinal
// (ignored by a CPU variant); `stream` is a cudaStream_t. Returns null, or an error text that stays valid until this
// thread's next launch; one that begins with "shape: " is about the extents that were passed. With the exported int32_t
// `tkjit_synchronous` set to 1 each launch waits for its kernel, so that what a kernel does wrong is its own launch's error.
typedef const char* (*TkjitLaunch)(const TkjitArg* args, int32_t device, void* stream);

#endif  // TKJIT_ARG_H
