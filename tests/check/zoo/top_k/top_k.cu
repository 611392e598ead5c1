// Finds the four largest elements of each row. Each thread inserts a row's elements into a sorted list in registers.
#include <tkjit/gl.h>

constexpr int kBest = 4;

__global__ void top_k(const __grid_constant__ Globals g) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x, n = g.x.cols();
    if (row >= g.x.rows()) return;
    float best[kBest];
    int where[kBest];
    for (int i = 0; i < kBest; i++) best[i] = -INFINITY, where[i] = -1;
    for (int col = 0; col < n; col++) {
        float value = g.x(row, col);
        int index = col;
        if (!(value > best[kBest - 1])) continue;
        for (int i = 0; i < kBest; i++) {
            if (value > best[i]) {
                const float smaller = best[i];
                const int its_index = where[i];
                best[i] = value, where[i] = index;
                value = smaller, index = its_index;
            }
        }
    }
    for (int i = 0; i < kBest; i++) {
        g.values(row, i) = best[i];
        g.indices(row, i) = where[i];
    }
}
