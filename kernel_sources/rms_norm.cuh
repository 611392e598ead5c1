// RMS normalisation of one row.
#pragma once

#include <tkjit/gl.h>
#include <tkjit/row.cuh>

template <typename T, int SIZE>
__device__ void normalize(const tkjit::Row<T, SIZE>& x, int n, float eps, const T* weight, T* y) {
    const float scale = rsqrtf(x.sum_of([](float x) { return x * x; }) / n + eps);
    if (weight)
        x.map(y, [&](float x, float weight) { return x * scale * weight; }, weight);
    else
        x.map(y, [&](float x) { return x * scale; });
}
