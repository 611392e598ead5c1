// The gradient of a short causal convolution. A block computes a channel of a sequence. Each thread has eight adjacent
// elements at a time, and computes the sums again that the activation was applied to.
#include "causal_conv1d.cuh"

template <typename T, int W, typename Activation>
__global__ void causal_conv1d_gradient(const __grid_constant__ Globals g) {
    constexpr int size = tkjit::Group<T>::size;
    const int n = g.x.cols();
    const size_t first = size_t(blockIdx.x) * n;
    const Filter<W> filter(g, blockIdx.x % g.x.rows());
    float of_weight[W] = {}, of_bias = 0.f;
    for (int col = threadIdx.x * size; col < n; col += blockDim.x * size) {
        float x[3 * size], grad[2 * size];  // x from the group before on
#pragma unroll
        for (int i = 0; i < 3; ++i) read_group(x + i * size, g.x.raw_ptr + first, col + (i - 1) * size, n);
#pragma unroll
        for (int i = 0; i < 2; ++i) read_group(grad + i * size, g.grad_y.raw_ptr + first, col + i * size, n);
        tkjit::Group<T> of_x;
#pragma unroll
        for (int i = 0; i < size + W - 1; ++i) {
            grad[i] *= Activation::slope(filter(x + size + i));
            if (i >= size) continue;
            of_bias += grad[i];
#pragma unroll
            for (int j = 0; j < W; ++j) of_weight[j] += grad[i] * x[size + i - (W - 1) + j];
        }
#pragma unroll
        for (int i = 0; i < size; ++i) {
            float sum = 0.f;
#pragma unroll
            for (int j = 0; j < W; ++j) sum += filter.weight[j] * grad[i + (W - 1) - j];
            of_x.element[i] = T(sum);
        }
        tkjit::store_group(g.grad_x.raw_ptr + first, col, n, of_x);
    }
    of_bias = tkjit::block_reduce<tkjit::Sum>(of_bias);
#pragma unroll
    for (float& one : of_weight) one = tkjit::block_reduce<tkjit::Sum>(one);
    if (threadIdx.x != 0) return;
    g.grad_bias[blockIdx.x] = of_bias;
#pragma unroll
    for (int i = 0; i < W; ++i) g.grad_weight[size_t(blockIdx.x) * W + i] = of_weight[i];
}
