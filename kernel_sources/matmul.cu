// C = alpha * A * B + beta * addend, for matrices with any strides. The tiles are those of gemm.cu.
#include "gemm_precision.cuh"
#include "gemm_tile.cuh"
#include "matmul_finish.cuh"

template <typename Factor, bool TA, bool TB, int Rank>
struct Problem {
    using T = InMemory<Factor>;
    static constexpr bool a_is_transposed = TA, b_is_transposed = TB;
    tkjit::strided<T, Rank> a, b, addend;
    float alpha, beta;
    Partial partial;
    int splits;
    tkjit::gl<T, 1> c;
};
template <typename Factor, bool TA, bool TB>
using Launch = TileLaunch<Factor, TA, TB>;

template <typename Factor, bool TA, bool TB, int Rank>
__global__ void __launch_bounds__(kThreads, std::is_same_v<Factor, float> ? 2 : 1)
    matmul(const __grid_constant__ Problem<Factor, TA, TB, Rank> g) {
    TKJIT_DYNAMIC_SHARED(Factor, stages);
    multiply(stages, g, AddScaled<InMemory<Factor>, Rank>{g.addend, g.alpha, g.beta});
}
