// A fake CUDA driver. Each call prints a line to standard output, and succeeds unless DRIVER_FAILS names it.
//
// DRIVER_FAILS="cuLaunchKernelEx=700"  DRIVER_CONTEXT=1: a context of device 1 is current  DRIVER_VERSION=12040
// DRIVER_PRIMARY=1: the primary context of device 1 is active, and is current unless DRIVER_CONTEXT is set
// DRIVER_CAPTURES=1: the stream is being captured  DRIVER_PARAMETERS="8,8,4": the bytes of each parameter of a launch
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static int asked_for(const char* name) {
    const char* fails = getenv("DRIVER_FAILS");
    const size_t length = strlen(name);
    if (fails && strncmp(fails, name, length) == 0 && fails[length] == '=') return atoi(fails + length + 1);
    return 0;
}

static int number(const char* variable, int otherwise) {
    const char* text = getenv(variable);
    return text ? atoi(text) : otherwise;
}

#define CALL(name, ...)                     \
    do {                                    \
        printf(name " " __VA_ARGS__);       \
        printf("\n");                       \
        fflush(stdout);                     \
        if (asked_for(name)) return asked_for(name); \
    } while (0)

static int pushed;

EXPORT int cuInit(unsigned flags) { CALL("cuInit", "%u", flags); return 0; }
EXPORT int cuDriverGetVersion(int* version) { *version = number("DRIVER_VERSION", 13000); return 0; }
EXPORT int cuDeviceGet(int* device, int ordinal) { *device = 100 + ordinal; return asked_for("cuDeviceGet"); }
EXPORT int cuCtxGetCurrent(void** context) {
    *context = getenv("DRIVER_PRIMARY") ? (void*)(0x1000L + 100 + number("DRIVER_PRIMARY", 0)) : 0;
    if (getenv("DRIVER_CONTEXT")) *context = (void*)0x77;
    return asked_for("cuCtxGetCurrent");
}
EXPORT int cuCtxGetDevice(int* device) {
    *device = 100 + number("DRIVER_CONTEXT", number("DRIVER_PRIMARY", 0));
    CALL("cuCtxGetDevice", "%d", *device);
    return 0;
}
EXPORT int cuCtxPushCurrent_v2(void* context) { CALL("cuCtxPushCurrent", "%p", context); pushed++; return 0; }
EXPORT int cuCtxPopCurrent_v2(void** context) { CALL("cuCtxPopCurrent", "%d", pushed--); *context = 0; return 0; }
EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* is_active) {
    *is_active = device == 100 + number("DRIVER_PRIMARY", -1);
    return 0;
}
EXPORT int cuDevicePrimaryCtxRetain(void** context, int device) {
    CALL("cuDevicePrimaryCtxRetain", "%d", device);
    *context = (void*)(0x1000L + device);
    return 0;
}
EXPORT int cuLibraryLoadData(void** library, const void* code, void* a, void** b, unsigned c, void* d, void** e, unsigned f) {
    CALL("cuLibraryLoadData", "%s %u %u", memcmp(code, "\x7f" "ELF", 4) == 0 ? "a cubin" : "no cubin", c, f);
    *library = (void*)0x11;
    return 0;
}
EXPORT int cuLibraryGetKernel(void** kernel, void* library, const char* name) {
    CALL("cuLibraryGetKernel", "%p %s", library, name);
    *kernel = (void*)0x22;
    return 0;
}
EXPORT int cuKernelSetAttribute(int attribute, int value, void* kernel, int device) {
    CALL("cuKernelSetAttribute", "%d %d %p %d", attribute, value, kernel, device);
    return 0;
}

struct Attribute {
    int id;
    char padding[4];
    union {
        char bytes[64];
        unsigned numbers[16];
    } value;
};
struct Config {
    unsigned grid[3], block[3], shared_memory_bytes;
    void* stream;
    struct Attribute* attributes;
    unsigned count;
};

EXPORT int cuLaunchKernelEx(const struct Config* config, void* kernel, void** parameters, void** extra) {
    printf("parameters");
    char* sizes = strdup(number("DRIVER_PARAMETERS", 0) ? getenv("DRIVER_PARAMETERS") : "");
    int i = 0;
    for (char* size = strtok(sizes, ","); size; size = strtok(0, ",")) {
        printf(" ");
        for (int byte = 0; byte < atoi(size); byte++) printf("%02x", ((unsigned char*)parameters[i])[byte]);
        i++;
    }
    free(sizes);
    printf("\n");
    for (unsigned j = 0; j < config->count; j++) {
        const unsigned* values = config->attributes[j].value.numbers;
        printf("attribute %d %u %u %u\n", config->attributes[j].id, values[0], values[1], values[2]);
    }
    CALL("cuLaunchKernelEx", "%u,%u,%u %u,%u,%u %u %p %p %p", config->grid[0], config->grid[1], config->grid[2],
         config->block[0], config->block[1], config->block[2], config->shared_memory_bytes, config->stream, kernel, (void*)extra);
    return 0;
}
EXPORT int cuThreadExchangeStreamCaptureMode(int* mode) {
    static int now;
    const int before = now;
    now = *mode;
    *mode = before;
    CALL("cuThreadExchangeStreamCaptureMode", "%d", now);
    return 0;
}
EXPORT int cuStreamIsCapturing(void* stream, int* status) { *status = number("DRIVER_CAPTURES", 0); return 0; }
EXPORT int cuStreamSynchronize(void* stream) { CALL("cuStreamSynchronize", "%p", stream); return 0; }
EXPORT int cuGetErrorName(int error, const char** name) { *name = "CUDA_ERROR_OF_THE_TEST"; return 0; }
EXPORT int cuGetErrorString(int error, const char** text) { *text = "as the test says"; return 0; }
