// Every shape of mma, by one warp that loads its registers unchanged. tensor_core.py replaces the comment PRODUCTS by a
// line for each wrapper.
#include <cuda_fp8.h>
#include <tkjit/gl.h>
#include <tkjit/mma.cuh>

// Each register is one word of a row of a, b, c or d.
template <class Register, int d_registers, int a_registers, int b_registers, class Multiply>
__device__ void product(const Globals& g, int index, Multiply multiply) {
    const int lane = threadIdx.x;
    uint32_t a[a_registers], b[b_registers];
    Register c[d_registers], d[d_registers];
    for (int i = 0; i < a_registers; i++) a[i] = g.a(0, index, lane, i);
    for (int i = 0; i < b_registers; i++) b[i] = g.b(0, index, lane, i);
    for (int i = 0; i < d_registers; i++) {
        const int word = g.c(0, index, lane, i);
        memcpy(&c[i], &word, 4);
    }
    multiply(d, a, b, c);
    for (int i = 0; i < d_registers; i++) memcpy(&g.d(0, index, lane, i), &d[i], 4);
}

// A lambda, because a wrapper is a set of overloads, which cannot be passed as an argument.
#define PRODUCT(index, Register, d_registers, a_registers, b_registers, ...)                              \
    product<Register, d_registers, a_registers, b_registers>(                                             \
        g, index,                                                                                         \
        [](Register(&d)[d_registers], const uint32_t (&a)[a_registers], const uint32_t (&b)[b_registers], \
           const Register(&c)[d_registers]) { tkjit::__VA_ARGS__(d, a, b, c); });

__global__ void multiply_all(const __grid_constant__ Globals g) {
    // PRODUCTS
}
