// C = (A * scale_a) * (B * scale_b)^T + bias for floats of 8 bits, for Hopper: gemm_hopper.cuh.
#include "gemm_hopper.cuh"
#include "scaled_matmul_finish.cuh"

template <typename TypeA, typename TypeB, typename Result>
using Ring = hopper::Ring<TypeA, TILE_N, STAGES, Result, TypeB>;  // chosen by `tkjit tune scaled_matmul`

template <typename TypeA, typename TypeB, typename Result, typename Finish>
struct Problem {
    static constexpr bool a_is_transposed = false, b_is_transposed = true;
    hopper::Boxes<TypeA> a;
    hopper::Boxes<TypeB> b;
    Finish finish;
    Partial partial;
    int splits;
    hopper::Boxes<Result> c;
};
template <typename TypeA, typename TypeB, typename Result>
using Launch = hopper::Launch<Ring<TypeA, TypeB, Result>>;

template <typename TypeA, typename TypeB, typename Result, typename Finish>
__global__ void __launch_bounds__((Launch<TypeA, TypeB, Result>::threads), 1)
    scaled_matmul(const __grid_constant__ Problem<TypeA, TypeB, Result, Finish> g) {
    using Block = Ring<TypeA, TypeB, Result>;
    TKJIT_DYNAMIC_SHARED(Block, ring);
    hopper::multiply(*ring, g, g.finish);
}
