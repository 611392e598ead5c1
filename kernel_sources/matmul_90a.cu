// C = alpha * A * B + beta * addend, for matrices with any strides, for Hopper: gemm_hopper.cuh. float32 uses the code of
// matmul.cu.
#include "gemm_hopper.cuh"
#include "gemm_tile.cuh"
#include "matmul_finish.cuh"

template <typename T>
using Ring = hopper::Ring<T, TILE_N, STAGES>;  // chosen by `tkjit tune matmul`

template <typename T, bool TA, bool TB, int Rank>
struct Problem {
    static constexpr bool a_is_transposed = TA, b_is_transposed = TB;
    template <bool is_transposed>
    using Operand =
        std::conditional_t<hopper::multiplies<T>, hopper::StridedBoxes<T, Rank, is_transposed>, tkjit::strided<T, Rank>>;
    Operand<TA> a;
    Operand<TB> b;
    tkjit::strided<T, Rank> addend;
    float alpha, beta;
    Partial partial;
    int splits;
    std::conditional_t<hopper::multiplies<T>, hopper::Boxes<T, Rank>, tkjit::gl<T, 1>> c;
};
template <typename T, bool TA, bool TB>
using Launch = std::conditional_t<hopper::multiplies<T>, hopper::Launch<Ring<T>>, TileLaunch<T, TA, TB>>;

template <typename T, bool TA, bool TB, int Rank>
__global__ void __launch_bounds__((Launch<T, TA, TB>::threads), hopper::multiplies<T> ? 1 : 2)
    matmul(const __grid_constant__ Problem<T, TA, TB, Rank> g) {
    const AddScaled<T, Rank> finish{g.addend, g.alpha, g.beta};
    if constexpr (hopper::multiplies<T>) {
        TKJIT_DYNAMIC_SHARED(Ring<T>, ring);
        hopper::multiply(*ring, g, finish);
    } else {
        TKJIT_DYNAMIC_SHARED(T, stages);
        multiply(stages, g, finish);
    }
}
