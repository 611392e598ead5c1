// A block per row, or a warp if the row is short. The row stays in registers for the mean, the variance and the output.
#include "layer_norm.cuh"

template <typename T, int SIZE>
__global__ void __launch_bounds__(tkjit::RowShape<SIZE>::block) layer_norm(const __grid_constant__ Globals g) {
    using Row = tkjit::Row<T, SIZE>;
    const int n = g.x.cols();
    const size_t first = Row::number() * n;
    if (first >= g.x.numel()) return;
    const Row x(g.x.raw_ptr + first, n);
    normalize(x, n, g.eps, g.weight.raw_ptr, g.bias.raw_ptr, g.y.raw_ptr + first);
}
