// C = (A * scale_a) * (B * scale_b)^T + bias for floats of 8 bits. The tiles are those of gemm.cu.
#include "gemm_tile.cuh"
#include "scaled_matmul_finish.cuh"

template <typename TypeA, typename TypeB, typename Result, typename Finish>
struct Problem {
    static constexpr bool a_is_transposed = false, b_is_transposed = true;
    tkjit::gl<TypeA, 1, 1> a;
    tkjit::gl<TypeB, 1, 1> b;
    Finish finish;
    Partial partial;
    int splits;
    tkjit::gl<Result, 1, 1> c;
};
template <typename TypeA, typename TypeB, typename Result>
using Launch = TileLaunch<__half, false, true>;

template <typename TypeA, typename TypeB, typename Result, typename Finish>
__global__ void __launch_bounds__(kThreads)
    scaled_matmul(const __grid_constant__ Problem<TypeA, TypeB, Result, Finish> g) {
    TKJIT_DYNAMIC_SHARED(__half, stages);
    multiply(stages, g, g.finish);
}
