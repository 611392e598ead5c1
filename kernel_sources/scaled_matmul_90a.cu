// C = (A * scale_a) * (B * scale_b)^T + bias for floats of 8 bits, for Hopper: gemm_hopper.cuh.
#include "gemm_hopper.cuh"
#include "scaled_matmul_finish.cuh"

template <typename T>
using Ring = hopper::Ring<T, TILE_N, STAGES, __nv_bfloat16>;  // chosen by `tkjit tune scaled_matmul`

template <typename T, typename Finish>
struct Problem {
    static constexpr bool a_is_transposed = false, b_is_transposed = true;
    hopper::Boxes<T> a, b;
    Finish finish;
    Partial partial;
    int splits;
    hopper::Boxes<__nv_bfloat16> c;
};
template <typename T>
using Launch = hopper::Launch<Ring<T>>;

template <typename T, typename Finish>
__global__ void __launch_bounds__(Launch<T>::threads, 1) scaled_matmul(const __grid_constant__ Problem<T, Finish> g) {
    TKJIT_DYNAMIC_SHARED(Ring<T>, ring);
    hopper::multiply(*ring, g, g.finish);
}
