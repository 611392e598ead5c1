// C = alpha * A * B + beta * addend, for matrices with any strides. The tiles are those of gemm.cu.
#include "gemm_tile.cuh"
#include "matmul_finish.cuh"

template <typename T, bool TA, bool TB, int Rank>
struct Problem {
    static constexpr bool a_is_transposed = TA, b_is_transposed = TB;
    tkjit::strided<T, Rank> a, b, addend;
    float alpha, beta;
    Partial partial;
    int splits;
    tkjit::gl<T, 1> c;
};
template <typename T, bool TA, bool TB>
using Launch = TileLaunch<T, TA, TB>;

template <typename T, bool TA, bool TB, int Rank>
__global__ void __launch_bounds__(kThreads, sizeof(T) == 4 ? 2 : 1) matmul(const __grid_constant__ Problem<T, TA, TB, Rank> g) {
    TKJIT_DYNAMIC_SHARED(T, stages);
    multiply(stages, g, AddScaled<T, Rank>{g.addend, g.alpha, g.beta});
}
