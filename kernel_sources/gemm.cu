// C = A * B, row-major, any M, N and K: a block computes a tile of 128 x 128, or a part of its sum over K.
#include "gemm_tile.cuh"

template <typename T>
struct Problem {
    static constexpr bool a_is_transposed = false, b_is_transposed = false;
    tkjit::gl<T, 1, 1> a, b;
    Partial partial;
    int splits;
    tkjit::gl<T, 1, 1> c;
};
template <typename T>
using Launch = TileLaunch<T>;

template <typename T>
__global__ void __launch_bounds__(kThreads) gemm(const __grid_constant__ Problem<T> g) {
    TKJIT_DYNAMIC_SHARED(T, stages);
    multiply(stages, g, [](float sum, int, int, int) { return sum; });
}
