// silu(gate) * up, for eight adjacent elements in each thread.
#pragma once

#include <tkjit/gl.h>
#include <tkjit/row.cuh>

/// Computes the thread's elements of a row. The grid's y counts the blocks of a row.
template <class T>
__device__ void silu_mul_of_row(const T* gate, const T* up, T* y, int n) {
    const int col = (blockIdx.y * blockDim.x + threadIdx.x) * tkjit::Group<T>::size;
    if (col >= n) return;
    const tkjit::Group<T> gates = tkjit::load_group(gate, col, n), ups = tkjit::load_group(up, col, n);
    tkjit::Group<T> result;
#pragma unroll
    for (int i = 0; i < result.size; ++i) {
        const float x = float(gates.element[i]);
        result.element[i] = T(__fdividef(x, 1.f + __expf(-x)) * float(ups.element[i]));
    }
    tkjit::store_group(y, col, n, result);
}
