// A short causal convolution of each channel. Each thread computes eight adjacent elements.
#include "causal_conv1d.cuh"

template <typename T, int W, typename Activation>
__global__ void causal_conv1d(const __grid_constant__ Globals g) {
    constexpr int size = tkjit::Group<T>::size;
    const int n = g.x.cols(), blocks_of_row = (n - 1) / (blockDim.x * size) + 1;
    const unsigned number = blockIdx.x / blocks_of_row;
    const int col = (blockIdx.x % blocks_of_row * blockDim.x + threadIdx.x) * size;
    if (col >= n) return;
    const T* const row = g.x.raw_ptr + size_t(number) * n;
    float x[2 * size];
    read_group(x, row, col - size, n);
    read_group(x + size, row, col, n);
    const Filter<W> filter(g, number % g.x.rows());
    tkjit::Group<T> y;
#pragma unroll
    for (int i = 0; i < size; ++i) y.element[i] = T(Activation::of(filter(x + size + i)));
    tkjit::store_group(g.y.raw_ptr + size_t(number) * n, col, n, y);
}
