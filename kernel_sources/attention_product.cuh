// The products of attention on all architectures but Hopper.
#pragma once

#include <tkjit/mma.cuh>

/// Adds the product of two 16 x 16 fragments to a sum, whose left and right halves are four elements each.
template <class T>
__device__ void add_product(float* sum, const uint32_t (&a)[4], const uint32_t (&b)[4]) {
    float(&left)[4] = *reinterpret_cast<float(*)[4]>(sum), (&right)[4] = *reinterpret_cast<float(*)[4]>(sum + 4);
    tkjit::mma_m16n8k16<T>(left, a, {b[0], b[1]}, left);
    tkjit::mma_m16n8k16<T>(right, a, {b[2], b[3]}, right);
}
