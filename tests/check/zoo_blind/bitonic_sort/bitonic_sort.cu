#include <tkjit/gl.h>

constexpr int kWidth = 256, kWarpSize = 32;

__global__ void bitonic_sort(const __grid_constant__ Globals g) {
    __shared__ float keys[kWidth];
    const int i = threadIdx.x;
    keys[i] = g.x(blockIdx.x, i);
    __syncthreads();
    for (int size = 2; size <= kWidth; size *= 2) {
        for (int distance = size / 2; distance > 0; distance /= 2) {
            const int partner = i ^ distance;
            if (partner > i) {
                const float low = keys[i], high = keys[partner];
                const bool ascending = (i & size) == 0;
                if ((low > high) == ascending) {
                    keys[i] = high;
                    keys[partner] = low;
                }
            }
            // Partners less than a warp apart are in the same warp.
            const int next_distance = distance > 1 ? distance / 2 : size;
            if (distance >= kWarpSize || next_distance >= kWarpSize)
                __syncthreads();
            else
                __syncwarp();
        }
    }
    g.y(blockIdx.x, i) = keys[i];
}
