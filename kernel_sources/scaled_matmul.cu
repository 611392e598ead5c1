// C = (A * scale_a) * (B * scale_b)^T + bias for floats of 8 bits. The tiles are those of gemm.cu.
#include "gemm_tile.cuh"
#include "scaled_matmul_finish.cuh"

template <typename T, typename Finish>
struct Problem {
    static constexpr bool a_is_transposed = false, b_is_transposed = true;
    tkjit::gl<T, 1, 1> a, b;
    Finish finish;
    Partial partial;
    int splits;
    tkjit::gl<__nv_bfloat16, 1, 1> c;
};
template <typename T>
using Launch = TileLaunch<__half, false, true>;

template <typename T, typename Finish>
__global__ void __launch_bounds__(kThreads) scaled_matmul(const __grid_constant__ Problem<T, Finish> g) {
    TKJIT_DYNAMIC_SHARED(__half, stages);
    multiply(stages, g, g.finish);
}
