// Causal linear attention. linear_attention.cuh describes the method.
#include "linear_attention.cuh"

template <typename T, int D>
__global__ void __launch_bounds__(kThreads) linear_attention(const __grid_constant__ Globals g) {
    using Block = Shared<T, D>;
    TKJIT_DYNAMIC_SHARED(Block, shared);
    const unsigned parts = D / kCols, number = blockIdx.x / parts;
    const size_t first = size_t(number) * g.q.rows() * D;
    const float scale = g.scale.value_or(rsqrtf(D)), rate = g.g ? g.g[number % g.q.depth()] * kLog2E : 0.f;
    Head<T, D> head(*shared,
                    {g.q.raw_ptr + first, g.k.raw_ptr + first, g.v.raw_ptr + first, g.o.raw_ptr + first, g.q.rows(), rate,
                     scale, scale, 1.f, false},
                    blockIdx.x % parts * kCols);
    const size_t state = size_t(number) * D * D;
    if (g.initial_state) head.read_state(g.initial_state.raw_ptr + state, D, 1);
    head.run();
    head.write_state(g.final_state.raw_ptr + state);
}
