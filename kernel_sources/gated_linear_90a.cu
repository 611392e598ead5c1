// A gated linear layer for Hopper: gemm_hopper.cuh. float32 uses the code of gated_linear.cu.
#include "gated_linear_finish.cuh"
#include "gemm_hopper.cuh"
#include "gemm_tile.cuh"

template <typename T>
using Ring = hopper::Ring<T, 256, STAGES>;  // chosen by `tkjit tune gated_linear`

template <typename T>
struct Layer {
    static constexpr bool a_is_transposed = false, b_is_transposed = true;
    template <class Layout>
    using Matrix = std::conditional_t<hopper::multiplies<T>, hopper::Boxes<T>, Layout>;
    Matrix<tkjit::gl<T>> a;
    Matrix<tkjit::gl<T, 1, 1>> b, up;
    Partial partial;
    int splits;
    Matrix<tkjit::gl<T>> c;
    tkjit::gl<T, 1, 1, 1> gate_bias, up_bias;
};
template <typename T>
using Launch = std::conditional_t<hopper::multiplies<T>, hopper::Launch<Ring<T>, true>, TileLaunch<T, false, true>>;

template <typename T, typename Activation>
__global__ void __launch_bounds__(Launch<T>::threads, hopper::multiplies<T> ? 1 : 2)
    gated_linear(const __grid_constant__ Layer<T> g) {
    const Finish<T, Activation> finish{g.gate_bias, g.up_bias};
    if constexpr (hopper::multiplies<T>) {
        TKJIT_DYNAMIC_SHARED(Ring<T>, ring);
        hopper::multiply(*ring, g, finish);
    } else {
        TKJIT_DYNAMIC_SHARED(T, stages);
        multiply(stages, g, finish);
    }
}
