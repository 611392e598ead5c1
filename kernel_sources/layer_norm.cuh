// Layer normalisation of one row.
#pragma once

#include <tkjit/gl.h>
#include <tkjit/row.cuh>

/// `weight` and `bias` may be null.
template <typename T, int SIZE>
__device__ void normalize(const tkjit::Row<T, SIZE>& x, int n, float eps, const T* weight, const T* bias, T* y) {
    const float mean = x.sum_of([](float x) { return x; }) / n;
    const float variance = x.sum_of([&](float x) { return (x - mean) * (x - mean); }) / n;
    const float scale = rsqrtf(variance + eps);
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
