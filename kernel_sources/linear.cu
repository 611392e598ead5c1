// A linear layer with an activation: y = f(x * weight^T + bias), for any number of rows, N and K. The tiles are those of
// gemm.cu.
#include "gemm_tile.cuh"
#include "linear_finish.cuh"

template <typename T>
struct Layer {
    static constexpr bool a_is_transposed = false, b_is_transposed = true;
    tkjit::gl<T> a;
    tkjit::gl<T, 1, 1> b;
    Partial partial;
    int splits;
    tkjit::gl<T> c;
    tkjit::gl<T, 1, 1, 1> bias;
};
template <typename T>
using Launch = TileLaunch<T, false, true>;

template <typename T, typename Activation>
__global__ void __launch_bounds__(kThreads) linear(const __grid_constant__ Layer<T> g) {
    TKJIT_DYNAMIC_SHARED(T, stages);
    multiply(stages, g, Finish<T, Activation>{g.bias});
}
