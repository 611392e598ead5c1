// A block for each row. The gradient is the row's softmax, less 1 for the target.
#include <tkjit/gl.h>

#include "online_softmax.cuh"

template <typename T>
__global__ void __launch_bounds__(1024) cross_entropy_gradient(const __grid_constant__ Globals g) {
    const int n = g.logits.cols();
    const T* const logits = g.logits.raw_ptr + size_t(blockIdx.x) * n;
    T* const grad = g.grad.raw_ptr + size_t(blockIdx.x) * n;
    const int64_t target = g.target[blockIdx.x];
    const float of_loss = target == g.ignore_index ? 0.f : g.grad_loss[blockIdx.x];
    const float of_softmax = of_loss + g.grad_lse[blockIdx.x], lse = g.lse[blockIdx.x];
    tkjit::each_group(logits, 0, n, [&](const tkjit::Group<T>& group, int col) {
        tkjit::Group<T> grads;
#pragma unroll
        for (int i = 0; i < group.size; ++i) {
            const float share = __expf(float(group.element[i]) - lse);
            grads.element[i] = T(share * of_softmax - (col + i == target ? of_loss : 0.f));
        }
        tkjit::store_group(grad, col, n, grads);
    });
}
