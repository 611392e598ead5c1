// As add_rms_norm.cu, with a result of 8-bit floats.
#include "quantize_row.cuh"

template <typename T, int SIZE, typename Scales>
__global__ void __launch_bounds__(tkjit::RowShape<SIZE>::block) add_rms_norm_fp8(const __grid_constant__ Globals g) {
    using Row = tkjit::Row<T, SIZE>;
    const int n = g.x.cols();
    const size_t first = Row::number() * n;
    if (Row::number() >= size_t(g.x.batch()) * g.x.depth() * g.x.rows()) return;
    const Row total = Row::sum(g.x.raw_ptr + first, g.residual.raw_ptr + first, g.total.raw_ptr + first, n);
    const float scale = rsqrtf(total.sum_of([](float x) { return x * x; }) / n + g.eps);
    Scales::write(g, total, n, [&](int i) {
        return total.mapped(i, [&](float x, float weight) { return x * scale * weight; }, g.weight.raw_ptr);
    });
}
