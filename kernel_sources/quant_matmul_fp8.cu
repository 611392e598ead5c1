// y = x * w^T for weights of float8_e4m3fn with a scale.
#include <cuda_fp8.h>

#include "quant_matmul.cuh"

template <typename T>
struct Problem {
    tkjit::gl<T> x;
    tkjit::gl<__nv_fp8_e4m3, 1, 1> weight;
    tkjit::gl<T, 1, 1> scales;
    Partial partial;
    int splits;
    tkjit::gl<T> y;
};

/// Shifts exponent and mantissa into T's fields. The biases of the exponents differ, so the result is multiplied by 2^120
/// (by 2^8 in float16).
template <class T>
struct EightBits {
    static constexpr int per_word = 4;

    T scale;

    EightBits() = default;
    __device__ EightBits(const Problem<T>& g, unsigned number) : scale(g.scales.raw_ptr[number]) {}

    __device__ uint32_t pair(uint32_t word, int i) const {
        const uint32_t bytes = word >> 8 * i, sign = (bytes & 0x00800080) << 8;
        const uint32_t moved = sign | (is_half<T> ? (bytes & 0x007f007f) << 7 : (bytes & 0x007f007f) << 4);
        const uint32_t factor = is_half<T> ? 0x5c005c00 : 0x7b807b80;  // 2^8, or 2^120
        const Pair<T> product = __hmul2(reinterpret_cast<const Pair<T>&>(moved), reinterpret_cast<const Pair<T>&>(factor));
        return reinterpret_cast<const uint32_t&>(product);
    }
};

template <typename T>
__global__ void __launch_bounds__(kThreads, 2) quant_matmul(const __grid_constant__ Problem<T> g) {
    multiply<T, EightBits<T>>(g);
}
