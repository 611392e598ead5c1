// Quantises rows to int8 with a scale for each. Dynamic shared memory holds the row's bytes, followed by the bits of
// the largest magnitude, because the bits of non-negative floats have the same order as integers.
#include <tkjit/gl.h>
#include <tkjit/shared_memory.cuh>

__global__ void quantize(const __grid_constant__ Globals g) {
    TKJIT_DYNAMIC_SHARED(char, memory);
    const int n = g.x.cols(), row = blockIdx.x;
    signed char* const bytes = reinterpret_cast<signed char*>(memory);
    int* const largest = reinterpret_cast<int*>(memory + n);

    if (threadIdx.x == 0) *largest = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) atomicMax(largest, __float_as_int(fabsf(g.x(row, i))));
    __syncthreads();
    const float scale = __int_as_float(*largest) / 127.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        bytes[i] = scale > 0.f ? static_cast<signed char>(rintf(g.x(row, i) / scale)) : 0;
    }
    __syncthreads();
    // four bytes at a time
    char4* const y = reinterpret_cast<char4*>(&g.y(row, 0));
    for (int i = threadIdx.x; i < n / 4; i += blockDim.x) y[i] = reinterpret_cast<const char4*>(bytes)[i];
    if (threadIdx.x == 0) g.scale[row] = scale;
}
