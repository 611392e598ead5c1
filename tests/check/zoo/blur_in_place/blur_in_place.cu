// A vertical blur in place. Each thread walks down one column and keeps the old value of the element above.
#include <tkjit/gl.h>

__global__ void blur_in_place(const __grid_constant__ Globals g) {
    const int rows = g.x.rows(), col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col >= g.x.cols()) return;
    float above = 0.f, here = g.x(0, col);
    for (int row = 0; row < rows; row++) {
        const float below = row + 1 < rows ? g.x(row + 1, col) : 0.f;
        g.x(row, col) = 0.25f * above + 0.5f * here + 0.25f * below;
        above = here;
        here = below;
    }
}
