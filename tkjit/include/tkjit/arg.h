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

// A device argument: the CPU or a CUDA device; index -1 is the current one.
typedef enum TkjitDeviceType { TKJIT_CPU, TKJIT_CUDA } TkjitDeviceType;
typedef struct TkjitDevice {
    int32_t type;
    int32_t index;
} TkjitDevice;

// The version of this file's structs and functions. A launcher exports it as the int32_t `tkjit_abi`.
#define TKJIT_ABI 2
#define TKJIT_MAX_RANK 8

// One field, by kind of argument:
// tensor: data, rank, dtype, extents (leftmost first), and the strides in elements if the field is a strided layout.
// scalar: integer or real. bool is an integer, a dtype is its TkjitDtype, a device is its index with its type in `dtype`.
// string: data points to the characters, and extents[0] is their number.
// list, set, tuple: data points to the items, and extents[0] is their number.
// dict: data points to alternating keys and values, and extents[0] is the number of pairs.
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

// The argument of a parallel global layout points to this. Its extents are the same on all devices and stay in TkjitArg.
typedef struct TkjitParallel {
    void* const* data;  // each device's part
    void* multicast;    // null without multicast
    int32_t count;      // number of devices
    int32_t dev_idx;    // the device of this launch
} TkjitParallel;

// Launches one variant, without synchronising. `args` are in the order of the struct's fields; `device` is the ordinal
// (ignored by a CPU variant); `stream` is a cudaStream_t. Returns null, or an error text that stays valid until this
// thread's next launch; a text that begins with "shape: " is about the passed extents. If the exported int32_t
// `tkjit_synchronous` is 1, each launch waits for its kernel, so that the failing launch itself returns the error.
typedef const char* (*TkjitLaunch)(const TkjitArg* args, int32_t device, void* stream);

// A loaded launcher: a function like TkjitLaunch, together with what the function needs. It is never freed.
typedef struct TkjitLauncher {
    const char* (*launch)(const struct TkjitLauncher* self, const TkjitArg* args, int32_t device, void* stream);
} TkjitLauncher;

#endif  // TKJIT_ARG_H
