// The gradients of rms_norm and layer_norm. A block, or a warp if the rows are short, computes several rows one after
// another. Meanwhile it adds up its part of the gradients of the weight and the bias, which are sums over all rows. These
// sums take up the registers, so the passes over a row read it again, mostly from the L1 cache.
//
// `is_whole` means that each group of eight elements can be loaded at once: rows begin at multiples of 16 bytes, and their
// length is a multiple of eight. Other rows are slower, with sums in memory, so that they need few registers.
#pragma once

#include <tkjit/gl.h>
#include <tkjit/row.cuh>

template <bool is_whole, class T>
__device__ tkjit::Group<T> load(const T* row, int col, int n) {
    if constexpr (is_whole) {
        return *reinterpret_cast<const tkjit::Group<T>*>(row + col);
    } else {
        tkjit::Group<T> group;
#pragma unroll
        for (int j = 0; j < tkjit::Group<T>::size; ++j) group.element[j] = j < n - col ? row[col + j] : T(0.f);
        return group;
    }
}

template <bool is_whole, class T>
__device__ void store(T* row, int col, int n, const tkjit::Group<T>& group) {
    if constexpr (is_whole) {
        *reinterpret_cast<tkjit::Group<T>*>(row + col) = group;
    } else {
#pragma unroll
        for (int j = 0; j < tkjit::Group<T>::size; ++j)
            if (j < n - col) row[col + j] = group.element[j];
    }
}

/// Calls `f(i, col)` for each of this thread's groups in a row of `n` elements, where `i` counts them.
template <int SIZE, bool is_unrolled, class F>
__device__ void each_place(int n, F f) {
    using Row = tkjit::Row<float, SIZE>;
    if constexpr (is_unrolled) {
#pragma unroll
        for (int i = 0; i < Row::Shape::groups; ++i)
            if (Row::column(i) < n) f(i, Row::column(i));
    } else {
#pragma unroll 1
        for (int i = 0; Row::column(i) < n; ++i) f(i, Row::column(i));
    }
}

/// A thread's sums for its columns: in registers if they are held, and otherwise in memory.
template <int SIZE, bool is_held, bool is_whole>
class ColumnSums {
public:
    using Group = tkjit::Group<float>;

    __device__ ColumnSums(float* to, int n) : to_(to), n_(n) {
        if constexpr (!is_held) each_place<SIZE, false>(n, [&](int, int col) { ::store<is_whole>(to, col, n, Group{}); });
    }

    /// Adds the terms of the thread's group `i` at column `col`.
    __device__ void add(int i, int col, const Group& terms) {
        Group sums;
        if constexpr (is_held) sums = held_[i];
        else sums = load<is_whole>(to_, col, n_);
#pragma unroll
        for (int j = 0; j < Group::size; ++j) sums.element[j] += terms.element[j];
        if constexpr (is_held) held_[i] = sums;
        else ::store<is_whole>(to_, col, n_, sums);
    }

    /// Writes the sums to memory after the last row.
    __device__ void finish() const {
        if constexpr (is_held)
            each_place<SIZE, true>(n_, [&](int i, int col) { ::store<is_whole>(to_, col, n_, held_[i]); });
    }

private:
    float* to_;
    int n_;
    Group held_[is_held ? tkjit::RowShape<SIZE>::groups : 1] = {};
};

template <bool is_centered, int SIZE, bool is_whole, class Globals, class T>
__device__ void gradient_of_rows(const Globals& g, const T* addend, float* grad_bias) {
    using Shape = tkjit::RowShape<SIZE>;
    constexpr bool is_held = Shape::is_held && is_whole;
    constexpr int size = tkjit::Group<T>::size;
    const int n = g.x.cols();
    const size_t rows = size_t(g.x.batch()) * g.x.depth() * g.x.rows(), first_row = tkjit::Row<T, SIZE>::number();
    const T* const weight = g.weight.raw_ptr;
    ColumnSums<SIZE, is_held, is_whole> of_weight(g.grad_weight.raw_ptr + first_row * n, n);
    ColumnSums<SIZE, is_held, is_whole> of_bias(is_centered ? grad_bias + first_row * n : nullptr, is_centered ? n : 0);
    const auto mean_of = [&](float sum) { return tkjit::block_reduce<tkjit::Sum, Shape::threads>(sum) / n; };

    for (size_t row = first_row; row < rows; row += size_t(gridDim.x) * Shape::rows) {
        const T* const x = g.x.raw_ptr + row * n;
        const T* const grad = g.grad_y.raw_ptr + row * n;
        const auto mean_over_row = [&](auto term) {
            float sum = 0.f;
            each_place<SIZE, is_held>(n, [&](int, int col) {
                const auto xs = load<is_whole>(x, col, n);
#pragma unroll
                for (int j = 0; j < size; ++j)
                    if (is_whole || j < n - col) sum += term(float(xs.element[j]));
            });
            return mean_of(sum);
        };
        const float mean = is_centered ? mean_over_row([](float x) { return x; }) : 0.f;
        const float scale = rsqrtf(mean_over_row([&](float x) { return (x - mean) * (x - mean); }) + g.eps);
        // Calls f(j, normal, grad, weight) for each element of the group at `col`.
        const auto each_element = [&](int col, auto f) {
            const auto xs = load<is_whole>(x, col, n), grads = load<is_whole>(grad, col, n);
            const auto weights = load<is_whole>(weight, col, n);
#pragma unroll
            for (int j = 0; j < size; ++j)
                if (is_whole || j < n - col)
                    f(j, (float(xs.element[j]) - mean) * scale, float(grads.element[j]), float(weights.element[j]));
        };

        float of_normal = 0.f, of_mean = 0.f;  // the gradients of the row's scale and mean, up to a factor
        each_place<SIZE, is_held>(n, [&](int i, int col) {
            tkjit::Group<float> products{}, grads{};
            each_element(col, [&](int j, float normal, float grad, float weight) {
                grads.element[j] = grad;
                products.element[j] = grad * normal;
                of_normal += grad * normal * weight;
                of_mean += grad * weight;
            });
            of_weight.add(i, col, products);
            if constexpr (is_centered) of_bias.add(i, col, grads);
        });
        of_normal = mean_of(of_normal);
        of_mean = is_centered ? mean_of(of_mean) : 0.f;

        each_place<SIZE, is_held>(n, [&](int, int col) {
            tkjit::Group<T> result, added{};
            if (addend) added = load<is_whole>(addend + row * n, col, n);
            each_element(col, [&](int j, float normal, float grad, float weight) {
                result.element[j] = T(scale * (grad * weight - of_mean - normal * of_normal) + float(added.element[j]));
            });
            store<is_whole>(g.grad_x.raw_ptr + row * n, col, n, result);
        });
    }
    of_weight.finish();
    of_bias.finish();
}

/// Computes the gradients of the block's rows. The normalised row is (x - mean) / sqrt(variance + eps) if it `is_centered`,
/// and otherwise x / sqrt(mean square + eps).
template <bool is_centered, int SIZE, class Globals, class T>
__device__ void norm_gradient(const Globals& g, const T* addend, float* grad_bias) {
    const auto is_aligned = [](const auto*... rows) { return (tkjit::is_aligned(rows) && ...); };
    const bool is_whole = g.x.cols() % tkjit::Group<T>::size == 0 &&
                          is_aligned(g.x.raw_ptr, g.grad_y.raw_ptr, g.weight.raw_ptr, addend, g.grad_x.raw_ptr,
                                     g.grad_weight.raw_ptr, grad_bias);
    if (is_whole) gradient_of_rows<is_centered, SIZE, true>(g, addend, grad_bias);
    else gradient_of_rows<is_centered, SIZE, false>(g, addend, grad_bias);
}
