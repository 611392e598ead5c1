// y = x * w^T for weights of 4 bits: (q - zero) * scale.
#include "quant_matmul.cuh"

template <typename T>
struct Problem {
    tkjit::gl<T> x;
    tkjit::gl<uint8_t, 1, 1> weight;
    tkjit::gl<T, 1, 1> scales;
    tkjit::gl<uint8_t, 1, 1> zeros;
    Partial partial;
    int splits;
    tkjit::gl<T> y;
};

/// Weights whose 4 bits become the lowest ones of the mantissa of 128 (or of 1024, which float16 represents as exactly).
template <class T>
struct FourBits {
    static constexpr int per_word = 8;
    static constexpr bool is_half = sizeof(T) == 2 && std::is_same_v<T, __half>;
    static constexpr uint32_t kBase = is_half ? 0x64006400 : 0x43004300;
    using Pair = std::conditional_t<is_half, __half2, __nv_bfloat162>;

    float scale;
    uint32_t zero;

    __device__ FourBits(const Problem<T>& g, unsigned number)
        : scale(g.scales.raw_ptr[number]) {
        const uint32_t digit = g.zeros ? g.zeros.raw_ptr[number] & 15 : 8;
        zero = kBase | digit << 16 | digit;
    }
    __device__ uint32_t pair(uint32_t word, int i) const {
        const uint32_t based = (word >> 4 * i & 0x000f000f) | kBase;
        const Pair difference = __hsub2(reinterpret_cast<const Pair&>(based), reinterpret_cast<const Pair&>(zero));
        return reinterpret_cast<const uint32_t&>(difference);
    }
};

template <typename T>
__global__ void __launch_bounds__(kThreads, 2) quant_matmul(const __grid_constant__ Problem<T> g) {
    multiply<T, FourBits<T>>(g);
}
