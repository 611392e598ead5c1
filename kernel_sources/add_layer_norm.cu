// A block per row, or a warp if the row is short. The sum stays in registers from its computation to the output.
#include "layer_norm.cuh"

template <typename T, int SIZE>
__global__ void __launch_bounds__(tkjit::RowShape<SIZE>::block) add_layer_norm(const __grid_constant__ Globals g) {
    using Row = tkjit::Row<T, SIZE>;
    const int n = g.x.cols();
    const size_t first = Row::number() * n;
    if (first >= g.x.numel()) return;
    const Row total = Row::sum(g.x.raw_ptr + first, g.residual.raw_ptr + first, g.total.raw_ptr + first, n);
    normalize(total, n, g.eps, g.weight.raw_ptr, g.bias.raw_ptr, g.y.raw_ptr + first);
}
