// A gated linear layer: y = f(x * gate^T + gate_bias) * (x * up^T + up_bias). The tiles are those of gemm.cu, with columns of
// both products.
#include "gated_linear_finish.cuh"
#include "gemm_tile.cuh"

template <typename T>
struct Layer {
    static constexpr bool a_is_transposed = false, b_is_transposed = true;
    tkjit::gl<T> a;
    tkjit::gl<T, 1, 1> b, up;
    Partial partial;
    int splits;
    tkjit::gl<T> c;
    tkjit::gl<T, 1, 1, 1> gate_bias, up_bias;
};
template <typename T>
using Launch = TileLaunch<T, false, true>;

template <typename T, typename Activation>
__global__ void __launch_bounds__(kThreads) gated_linear(const __grid_constant__ Layer<T> g) {
    TKJIT_DYNAMIC_SHARED(T, stages);
    multiply(stages, g, Finish<T, Activation>{g.gate_bias, g.up_bias});
}
