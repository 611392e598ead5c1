#include <tkjit/gl.h>
#include <tkjit/shared_memory.cuh>

__global__ void masked_mirror(const __grid_constant__ Globals g) {
    TKJIT_DYNAMIC_SHARED(unsigned char, memory);
    const int n = g.x.cols(), row = blockIdx.x;
    unsigned char* flags = memory;
    float* values = reinterpret_cast<float*>(memory + (n + 3) / 4 * 4);
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        flags[i] = g.keep(row, i);
        values[i] = g.x(row, i);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const int mirrored = n - 1 - i;
        g.y(row, i) = flags[mirrored] ? values[mirrored] : 0.f;
    }
}
