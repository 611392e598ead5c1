// A block for each row, which it reads twice; the second time, the row is in the L2 cache.
#include <tkjit/gl.h>

#include "online_softmax.cuh"

template <typename T>
__global__ void __launch_bounds__(1024) fused_cross_entropy(const __grid_constant__ Globals g) {
    const int n = g.logits.cols();
    T* const logits = g.logits.raw_ptr + size_t(blockIdx.x) * n;
    const int64_t target = g.target[blockIdx.x];
    const bool is_ignored = target == g.ignore_index, is_class = target >= 0 && target < n;
    const float of_target = is_class ? float(logits[target]) : NAN;
    const Normalizer normalizer = normalizer_of(logits, n);
    __syncthreads();  // because another thread replaces the logit of the target
    if (threadIdx.x == 0) {
        const float lse = normalizer.log_sum_exp();
        g.lse[blockIdx.x] = lse;
        g.loss[blockIdx.x] = is_ignored ? 0.f : lse - of_target;
    }
    const float scale = is_ignored ? 0.f : is_class ? g.scale : NAN;
    tkjit::each_group(logits, 0, n, [&](const tkjit::Group<T>& group, int col) {
        tkjit::Group<T> grads;
#pragma unroll
        for (int i = 0; i < group.size; ++i)
            grads.element[i] = T(scale * (normalizer.share_of(float(group.element[i])) - (col + i == target ? 1.f : 0.f)));
        tkjit::store_group(logits, col, n, grads);
    });
}
