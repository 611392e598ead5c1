// A linear layer with an activation, for Hopper: gemm_hopper.cuh. float32 uses the code of linear.cu.
#include "gemm_hopper.cuh"
#include "gemm_tile.cuh"
#include "linear_finish.cuh"

template <typename T>
using Ring = hopper::Ring<T, TILE_N, STAGES>;  // chosen by `tkjit tune linear`

template <typename T>
struct Layer {
    static constexpr bool a_is_transposed = false, b_is_transposed = true;
    template <class Layout>
    using Matrix = std::conditional_t<hopper::multiplies<T>, hopper::Boxes<T>, Layout>;
    Matrix<tkjit::gl<T>> a;
    Matrix<tkjit::gl<T, 1, 1>> b;
    Partial partial;
    int splits;
    Matrix<tkjit::gl<T>> c;
    tkjit::gl<T, 1, 1, 1> bias;
};
template <typename T>
using Launch = std::conditional_t<hopper::multiplies<T>, hopper::Launch<Ring<T>>, TileLaunch<T, false, true>>;

template <typename T, typename Activation>
__global__ void __launch_bounds__(Launch<T>::threads, hopper::multiplies<T> ? 1 : 2) linear(const __grid_constant__ Layer<T> g) {
    const Finish<T, Activation> finish{g.bias};
    if constexpr (hopper::multiplies<T>) {
        TKJIT_DYNAMIC_SHARED(Ring<T>, ring);
        hopper::multiply(*ring, g, finish);
    } else {
        TKJIT_DYNAMIC_SHARED(T, stages);
        multiply(stages, g, finish);
    }
}
