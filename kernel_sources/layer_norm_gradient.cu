// A block per row, or a warp if the row is short: norm_gradient.cuh.
#include "norm_gradient.cuh"

template <typename T, int SIZE>
__global__ void __launch_bounds__(tkjit::RowShape<SIZE>::block, 1) layer_norm_gradient(const __grid_constant__ Globals g) {
    norm_gradient<true, SIZE>(g, static_cast<const T*>(g.addend.raw_ptr), g.grad_bias.raw_ptr);
}
