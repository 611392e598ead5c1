#include "silu_mul.cuh"

template <typename T>
__global__ void silu_mul(const __grid_constant__ Globals g) {
    const int n = g.y.cols();
    const size_t first = size_t(blockIdx.x) * n;
    silu_mul_of_row(g.gate.raw_ptr + first, g.up.raw_ptr + first, g.y.raw_ptr + first, n);
}
