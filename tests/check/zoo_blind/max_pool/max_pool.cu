#include <tkjit/gl.h>

__global__ void max_pool(const __grid_constant__ Globals g) {
    const int height = g.x.rows(), width = g.x.cols();
    const int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= height || col >= width) return;
    float largest = -INFINITY;
    for (int r = row - 1; r <= row + 1; ++r) {
        for (int c = col - 1; c <= col + 1; ++c) {
            if (r < 0 || r >= height || c < 0 || c >= width) continue;
            largest = fmaxf(largest, g.x(r, c));
        }
    }
    g.y(row, col) = largest;
}
