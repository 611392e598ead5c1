// Stores whose values are never read. A compiler may remove them, and then the checker would miss their errors.
#include <cuda_runtime.h>

__global__ void unread(Globals g) {
    const int i = threadIdx.x;
    __shared__ float tile[64];
    tile[i + 1] = 1;                     // memory
    __shared__ char bytes[68];
    memset(&bytes[i], 0, 7);             // memory
    float own[4];
    own[i % 5] = 1;                      // memory
    g.y[i] = 0;
    if (i == 3) g.y[i + 64] = 1;         // memory
    g.y[i] = g.x[i];
    const float after = g.x[i + 1];      // memory
    (void)after;
}
