// One block of 256 threads per row. Each thread walks the row with a stride of the block's size.
#include <tkjit/gl.h>
#include <tkjit/reduce.cuh>

constexpr int kThreads = 256;

template <typename T>
__global__ void softmax(const __grid_constant__ Globals g) {
    const int n = g.x.cols();
    const T* x = g.x.raw_ptr + size_t(blockIdx.x) * n;
    T* y = g.y.raw_ptr + size_t(blockIdx.x) * n;

    float largest = tkjit::Max::identity;
    for (int i = threadIdx.x; i < n; i += blockDim.x) largest = tkjit::Max::combine(largest, float(x[i]));
    largest = tkjit::block_reduce<tkjit::Max, kThreads>(largest);

    float sum = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += __expf(float(x[i]) - largest);
    sum = tkjit::block_reduce<tkjit::Sum, kThreads>(sum);

    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = T(__expf(float(x[i]) - largest) / sum);
}
