// Sums of rows, by a __device__ function with a struct of launch constants, and by a host function that launches it.
#include <mittens.h>

namespace row_sums {

struct config {
    static constexpr int NUM_THREADS = 32;
    static constexpr int DYNAMIC_SHARED_MEMORY = NUM_THREADS * sizeof(float);
};

struct globals {
    mittens::gl<float, 1, 1, -1, -1> x;
    mittens::gl<float, 1, 1, 1, -1> sums;

    dim3 grid() const { return dim3(x.rows()); }
};

__device__ inline void kernel(const globals& g) {
    extern __shared__ float partial[];
    float sum = 0;
    for (int col = threadIdx.x; col < g.x.cols(); col += blockDim.x) sum += g.x(blockIdx.x, col);
    partial[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int i = 1; i < config::NUM_THREADS; ++i) sum += partial[i];
    g.sums(0, blockIdx.x) = sum;
}

}  // namespace row_sums

cudaError_t sum_rows(float* x, float* sums, int rows, int cols, cudaStream_t stream) {
    row_sums::globals g{{x, nullptr, nullptr, rows, cols}, {sums, nullptr, nullptr, nullptr, rows}};
    return mittens::launch_kernel<row_sums::config, row_sums::globals, row_sums::kernel>(g, stream);
}
