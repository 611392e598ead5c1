// C = A * B, row-major, any M, N and K, for Hopper: gemm_hopper.cuh. float32 uses the code of gemm.cu, because Hopper has
// no full-precision tensor cores.
#include "gemm_hopper.cuh"
#include "gemm_tile.cuh"

template <typename T>
using Ring = hopper::Ring<T, TILE_N, STAGES>;  // chosen by `tkjit tune gemm`

template <typename T>
struct Problem {
    static constexpr bool a_is_transposed = false, b_is_transposed = false;
    using Matrix = std::conditional_t<hopper::multiplies<T>, hopper::Boxes<T>, tkjit::gl<T, 1, 1>>;
    Matrix a, b;
    Partial partial;
    int splits;
    Matrix c;
};
template <typename T>
using Launch = std::conditional_t<hopper::multiplies<T>, hopper::Launch<Ring<T>>, TileLaunch<T>>;

template <typename T>
__global__ void __launch_bounds__(Launch<T>::threads, hopper::multiplies<T> ? 1 : 2) gemm(const __grid_constant__ Problem<T> g) {
    const auto finish = [](float sum, int, int, int) { return sum; };
    if constexpr (hopper::multiplies<T>) {
        TKJIT_DYNAMIC_SHARED(Ring<T>, ring);
        hopper::multiply(*ring, g, finish);
    } else {
        TKJIT_DYNAMIC_SHARED(T, stages);
        multiply(stages, g, finish);
    }
}
