// As layer_norm.cu, with a result of 8-bit floats.
#include "quantize_row.cuh"

template <typename T, int SIZE, typename Scales>
__global__ void __launch_bounds__(tkjit::RowShape<SIZE>::block) layer_norm_fp8(const __grid_constant__ Globals g) {
    using Row = tkjit::Row<T, SIZE>;
    const int n = g.x.cols();
    const size_t first = Row::number() * n;
    if (Row::number() >= size_t(g.x.batch()) * g.x.depth() * g.x.rows()) return;
    const Row x(g.x.raw_ptr + first, n);
    const tkjit::OptionalRow<T> weight{g.weight.raw_ptr, 1.f}, bias{g.bias.raw_ptr, 0.f};
    const float mean = x.sum_of([](float x) { return x; }) / n;
    const float scale = rsqrtf(x.sum_of([&](float x) { return (x - mean) * (x - mean); }) / n + g.eps);
    const auto value = [&](float x, float weight, float bias) { return (x - mean) * scale * weight + bias; };
    Scales::write(g, x, n, [&](int i) { return x.mapped(i, value, weight, bias); });
}
