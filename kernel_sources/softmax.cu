// One block of 256 threads per row. Each thread walks the row with a stride of the block's size.
#include <tkjit/gl.h>

struct Max {
    static constexpr float identity = -INFINITY;
    static __device__ float combine(float a, float b) { return fmaxf(a, b); }
};

struct Sum {
    static constexpr float identity = 0.f;
    static __device__ float combine(float a, float b) { return a + b; }
};

constexpr unsigned kAllLanes = 0xffffffff;
constexpr int kWarpSize = 32;

template <typename Op>
__device__ float warp_reduce(float value) {
    for (int offset = kWarpSize / 2; offset > 0; offset /= 2)
        value = Op::combine(value, __shfl_xor_sync(kAllLanes, value, offset));
    return value;
}

// Returns the block's result in every thread.
template <typename Op>
__device__ float block_reduce(float value) {
    __shared__ float of_warp[kWarpSize];
    const int warp = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize;
    value = warp_reduce<Op>(value);
    if (lane == 0) of_warp[warp] = value;
    __syncthreads();
    value = lane < int(blockDim.x / kWarpSize) ? of_warp[lane] : Op::identity;
    value = warp_reduce<Op>(value);
    __syncthreads();  // of_warp is free for the next reduction
    return value;
}

template <typename T>
__global__ void softmax(const __grid_constant__ Globals g) {
    const int n = g.x.cols();
    const T* x = g.x.raw_ptr + size_t(blockIdx.x) * n;
    T* y = g.y.raw_ptr + size_t(blockIdx.x) * n;

    float largest = Max::identity;
    for (int i = threadIdx.x; i < n; i += blockDim.x) largest = Max::combine(largest, float(x[i]));
    largest = block_reduce<Max>(largest);

    float sum = Sum::identity;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum = Sum::combine(sum, __expf(float(x[i]) - largest));
    sum = block_reduce<Sum>(sum);

    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = T(__expf(float(x[i]) - largest) / sum);
}
