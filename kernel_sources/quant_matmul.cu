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

/// Puts each weight of 4 bits into the lowest bits of the mantissa of 128 (of 1024 in float16), where they count ones.
/// Subtracting 128 + zero is then exact.
template <class T>
struct FourBits {
    static constexpr int per_word = 8;
    static constexpr uint32_t kBase = is_half<T> ? 0x64006400 : 0x43004300;

    T scale;
    uint16_t zero;

    FourBits() = default;
    __device__ FourBits(const Problem<T>& g, unsigned number) : scale(g.scales.raw_ptr[number]) {
        zero = g.zeros ? g.zeros.raw_ptr[number] & 15 : 8;
    }
    __device__ uint32_t pair(uint32_t word, int i) const {
        const uint32_t based = (word >> 4 * i & 0x000f000f) | kBase, zeros = kBase | zero << 16 | zero;
        const Pair<T> difference = __hsub2(reinterpret_cast<const Pair<T>&>(based), reinterpret_cast<const Pair<T>&>(zeros));
        return reinterpret_cast<const uint32_t&>(difference);
    }
};

template <typename T>
__global__ void __launch_bounds__(kThreads, 2) quant_matmul(const __grid_constant__ Problem<T> g) {
    multiply<T, FourBits<T>>(g);
}
