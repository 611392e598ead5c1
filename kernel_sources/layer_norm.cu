// A block per row, or a warp if the row is short. The row stays in registers for the mean, the variance and the output.
#include <tkjit/gl.h>
#include <tkjit/row.cuh>

template <typename T, int SIZE>
__global__ void __launch_bounds__(tkjit::RowShape<SIZE>::block) layer_norm(const __grid_constant__ Globals g) {
    using Row = tkjit::Row<T, SIZE>;
    const int n = g.x.cols();
    const size_t first = Row::number() * n;
    if (first >= g.x.numel()) return;

    const Row x(g.x.raw_ptr + first, n);
    const float mean = x.sum_of([](float x) { return x; }) / n;
    const float variance = x.sum_of([&](float x) { return (x - mean) * (x - mean); }) / n;
    const float scale = rsqrtf(variance + g.eps);

    T* const y = g.y.raw_ptr + first;
    const T* const weight = g.weight.raw_ptr;
    const T* const bias = g.bias.raw_ptr;
    const auto normal = [&](float x) { return (x - mean) * scale; };
    if (weight && bias)
        x.map(y, [&](float x, float weight, float bias) { return normal(x) * weight + bias; }, weight, bias);
    else if (weight)
        x.map(y, [&](float x, float weight) { return normal(x) * weight; }, weight);
    else if (bias)
        x.map(y, [&](float x, float bias) { return normal(x) + bias; }, bias);
    else
        x.map(y, normal);
}
