// The epilogue of `matmul`.
#pragma once

#include <tkjit/strided.h>

/// Makes an element of the result from its sum: alpha * sum + beta * addend.
template <class T, int Rank>
struct AddScaled {
    const tkjit::strided<T, Rank>& addend;
    float alpha, beta;

    __device__ float operator()(float sum, int number, int row, int col) const {
        const float product = alpha * sum;
        if (!addend || beta == 0.f || row >= addend.extent(Rank - 2) || col >= addend.extent(Rank - 1)) return product;
        if constexpr (Rank == 3) return product + beta * float(addend(number, row, col));
        else return product + beta * float(addend(row, col));
    }
};
