// A block for each row, which it reads once.
#include <tkjit/gl.h>

#include "online_softmax.cuh"

template <typename T>
__global__ void __launch_bounds__(1024) cross_entropy(const __grid_constant__ Globals g) {
    const int n = g.logits.cols();
    const T* const logits = g.logits.raw_ptr + size_t(blockIdx.x) * n;
    const float lse = normalizer_of(logits, n).log_sum_exp();
    if (threadIdx.x != 0) return;
    const int64_t target = g.target[blockIdx.x];
    g.lse[blockIdx.x] = lse;
    g.loss[blockIdx.x] = target == g.ignore_index ? 0.f : target >= 0 && target < n ? lse - float(logits[target]) : NAN;
}
