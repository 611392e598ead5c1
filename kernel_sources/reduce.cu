// Reductions of rows. If several blocks share a row, each stores its result, and the one that finishes last combines them.
#include <tkjit/gl.h>
#include <tkjit/row.cuh>

struct sum : tkjit::Sum {
    static __device__ float result(float total, int) { return total; }
};
struct mean : tkjit::Sum {
    static __device__ float result(float total, int n) { return total / n; }
};
struct amax {
    static constexpr float identity = -INFINITY;
    static __device__ float combine(float a, float b) { return isnan(a) || a > b ? a : b; }  // keeps NaN
    static __device__ float result(float largest, int) { return largest; }
};
struct amin {
    static constexpr float identity = INFINITY;
    static __device__ float combine(float a, float b) { return isnan(a) || a < b ? a : b; }
    static __device__ float result(float smallest, int) { return smallest; }
};

/// Reduces those elements of a row that this thread reads.
template <class Op, class T>
__device__ float reduce_own(const T* row, int n) {
    float result = Op::identity;
    tkjit::each_element(row, n, [&](T x, int) { result = Op::combine(result, float(x)); });
    return result;
}

template <typename T, typename Op>
__global__ void __launch_bounds__(256, 4) reduce(const __grid_constant__ Globals g) {
    const int n = g.x.cols(), row = blockIdx.x / g.splits, split = blockIdx.x % g.splits;
    const T* const x = g.x.raw_ptr + size_t(row) * n;
    const auto begin = [&](int split) { return split < g.splits ? int(int64_t(n) * split / g.splits / 8 * 8) : n; };
    float result = tkjit::block_reduce<Op>(reduce_own<Op>(x + begin(split), begin(split + 1) - begin(split)));
    if (g.splits > 1) {
        float* const parts = g.parts.raw_ptr + size_t(row) * g.splits;
        __shared__ bool is_last;
        if (threadIdx.x == 0) {
            parts[split] = result;
            __threadfence();
            is_last = atomicAdd(&g.finished[row], 1) == g.splits - 1;
            __threadfence();
        }
        __syncthreads();
        if (!is_last) return;
        result = Op::identity;
        for (int i = threadIdx.x; i < g.splits; i += blockDim.x) result = Op::combine(result, __ldcg(parts + i));
        result = tkjit::block_reduce<Op>(result);
    }
    if (threadIdx.x == 0) g.y[row] = T(Op::result(result, n));
}
