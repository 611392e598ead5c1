// One warp per row, eight rows per block.
#include <tkjit/gl.h>

constexpr unsigned kAllLanes = 0xffffffff;
constexpr int kWarpSize = 32, kRows = 8;

__global__ void matrix_vector(const __grid_constant__ Globals g) {
    const int lane = threadIdx.x, row = blockIdx.x * kRows + threadIdx.y, cols = g.a.cols();
    if (row >= g.a.rows()) return;  // the whole warp returns
    float sum = 0.f;
    for (int col = lane; col < cols; col += kWarpSize) sum += float(g.a(row, col)) * float(g.x[col]);
    for (int offset = kWarpSize / 2; offset > 0; offset /= 2) sum += __shfl_down_sync(kAllLanes, sum, offset);
    if (lane == 0) g.y[row] = sum;
}
