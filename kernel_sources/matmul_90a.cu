// C = alpha * A * B + beta * addend, for matrices with any strides, for Hopper: gemm_hopper.cuh. float32 uses the code of
// matmul.cu. tf32 uses it as well unless the elements along K are adjacent in both A and B, because wgmma cannot transpose
// elements of 32 bits.
#include "gemm_hopper.cuh"
#include "gemm_precision.cuh"
#include "gemm_tile.cuh"
#include "matmul_finish.cuh"

template <typename Factor>
using Ring = hopper::Ring<Factor, TILE_N, STAGES, InMemory<Factor>>;  // chosen by `tkjit tune matmul`

template <typename Factor, bool TA, bool TB>
constexpr bool uses_wgmma = hopper::multiplies<Factor> && (sizeof(Factor) <= 2 || (!TA && TB));

template <typename Factor, bool TA, bool TB, int Rank>
struct Problem {
    using T = InMemory<Factor>;
    static constexpr bool a_is_transposed = TA, b_is_transposed = TB;
    template <bool is_transposed>
    using Operand = std::conditional_t<uses_wgmma<Factor, TA, TB>, hopper::StridedBoxes<Factor, Rank, is_transposed>,
                                       tkjit::strided<T, Rank>>;
    Operand<TA> a;
    Operand<TB> b;
    tkjit::strided<T, Rank> addend;
    float alpha, beta;
    Partial partial;
    int splits;
    std::conditional_t<uses_wgmma<Factor, TA, TB>, hopper::Boxes<T, Rank>, tkjit::gl<T, 1>> c;
};
template <typename Factor, bool TA, bool TB>
using Launch = std::conditional_t<uses_wgmma<Factor, TA, TB>, hopper::Launch<Ring<Factor>>, TileLaunch<Factor, TA, TB>>;

template <typename Factor, bool TA, bool TB, int Rank>
__global__ void __launch_bounds__((Launch<Factor, TA, TB>::threads), std::is_same_v<Factor, float> ? 2 : 1)
    matmul(const __grid_constant__ Problem<Factor, TA, TB, Rank> g) {
    const AddScaled<InMemory<Factor>, Rank> finish{g.addend, g.alpha, g.beta};
    if constexpr (uses_wgmma<Factor, TA, TB>) {
        TKJIT_DYNAMIC_SHARED(Ring<Factor>, ring);
        hopper::multiply(*ring, g, finish);
    } else {
        TKJIT_DYNAMIC_SHARED(Factor, stages);
        multiply(stages, g, finish);
    }
}
