// Like silu_mul.cu, but `gate` and `up` are the two halves of each row of x.
#include "silu_mul.cuh"

template <typename T>
__global__ void silu_mul(const __grid_constant__ Globals g) {
    const int n = g.y.cols();
    const T* const x = g.x.raw_ptr + size_t(blockIdx.x) * 2 * n;
    silu_mul_of_row(x, x + n, g.y.raw_ptr + size_t(blockIdx.x) * n, n);
}
