// As rms_norm.cu, with a result of 8-bit floats.
#include "quantize_row.cuh"

template <typename T, int SIZE, typename Scales>
__global__ void __launch_bounds__(tkjit::RowShape<SIZE>::block) rms_norm_fp8(const __grid_constant__ Globals g) {
    using Row = tkjit::Row<T, SIZE>;
    const int n = g.x.cols();
    const size_t first = Row::number() * n;
    if (Row::number() >= size_t(g.x.batch()) * g.x.depth() * g.x.rows()) return;
    const Row x(g.x.raw_ptr + first, n);
    const tkjit::OptionalRow<T> weight{g.weight.raw_ptr, 1.f};
    const float scale = rsqrtf(x.sum_of([](float x) { return x * x; }) / n + g.eps);
    Scales::write(g, x, n, [&](int i) {
        return x.mapped(i, [&](float x, float weight) { return x * scale * weight; }, weight);
    });
}
