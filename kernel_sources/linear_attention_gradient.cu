// The gradients of causal linear attention. They are linear attention as well:
//
//   grad_q[t] = scale * sum over s <= t of exp(g)^(t - s) (grad_o[t] . v[s]) k[s]
//   grad_k[s] = scale * sum over t >= s of exp(g)^(t - s) (v[s] . grad_o[t]) q[t]
//   grad_v[s] = scale * sum over t >= s of exp(g)^(t - s) (k[s] . q[t]) grad_o[t]
//
// A block computes a part of one of them. For grad_q, the states are transposed states of the attention. For grad_k and
// grad_v, time runs backward, and the states are gradients of the attention's states.
#include "linear_attention.cuh"

template <typename T, int D>
__global__ void __launch_bounds__(kThreads) linear_attention_gradient(const __grid_constant__ Globals g) {
    using Block = Shared<T, D>;
    TKJIT_DYNAMIC_SHARED(Block, shared);
    const unsigned parts = D / kCols, kind = blockIdx.x % 3, number = blockIdx.x / 3 / parts;
    const size_t first = size_t(number) * g.q.rows() * D, first_of_state = size_t(number) * D * D;
    const float scale = g.scale.value_or(rsqrtf(D)), rate = g.g ? g.g[number % g.q.depth()] * kLog2E : 0.f;
    const T *const q = g.q.raw_ptr + first, *const k = g.k.raw_ptr + first, *const v = g.v.raw_ptr + first;
    const T* const grad_o = g.grad_o.raw_ptr + first;
    Recurrence<T> work{grad_o, v, k, g.grad_q.raw_ptr + first, g.q.rows(), rate, scale, scale, 1.f, false};
    const float* state = g.initial_state ? g.initial_state.raw_ptr + first_of_state : nullptr;
    if (kind > 0) {
        work.reverse = true;
        work.state_scale = 1.f;  // the states include the scale
        work.key_scale = scale;
        work.q = kind == 1 ? v : k;
        work.k = kind == 1 ? grad_o : q;
        work.v = kind == 1 ? q : grad_o;
        work.o = (kind == 1 ? g.grad_k.raw_ptr : g.grad_v.raw_ptr) + first;
        state = g.grad_final_state.raw_ptr + first_of_state;
    }
    Head<T, D> head(*shared, work, blockIdx.x / 3 % parts * kCols);
    if (state) head.read_state(state, kind == 2 ? D : 1, kind == 2 ? 1 : D);
    head.run();
    if (kind == 2) head.write_state(g.grad_initial_state.raw_ptr + first_of_state);
}
