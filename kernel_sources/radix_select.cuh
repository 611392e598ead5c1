// Selection of the largest elements of a row, by the digits of their keys: a block counts how many elements have each value
// of the first digit, chooses the value at which the count of the larger ones reaches the target, and goes on with the next
// digit of the elements that have it. Elements can count with a weight, such as their probability.
//
// Source: Alabi, Blanchard, Gordon and Steinbach, "Fast k-Selection Algorithms for Graphics Processing Units", 2012.
#pragma once

#include <tkjit/row.cuh>

#include <stdint.h>

#include <type_traits>

namespace radix {

constexpr int kBits = 11, kDigits = 1 << kBits;  // of a key at once

/// Selects the keys whose leading bits, those of `mask`, are at least `digits`.
struct Threshold {
    uint64_t digits = 0, mask = 0;

    __device__ bool selects(uint64_t key) const { return (key & mask) >= digits; }
};

/// A key that has the order of the values, and for equal values the reverse order of the indices. NaN is the largest.
template <class T>
__device__ uint64_t key_of(T value, unsigned index) {
    constexpr int bits = 8 * sizeof(T);
    using Word = std::conditional_t<bits == 16, uint16_t, uint32_t>;
    constexpr Word sign = Word(1) << (bits - 1);
    const T unsigned_zero = float(value) == 0.f ? T(0.f) : value;
    const Word word = reinterpret_cast<const Word&>(unsigned_zero);
    const Word ordered = isnan(float(value)) ? Word(~Word(0)) : Word(word & sign ? ~word : word | sign);
    return uint64_t(ordered) << (64 - bits) | ~index;
}

/// The bits in which the keys of `n` elements of T can differ.
template <class T>
__device__ uint64_t varying_bits(int n) {
    return ~0ull << (64 - 8 * sizeof(T)) | (n > 1 ? ~0u >> __clz(n - 1) : 0);
}

/// Finds the threshold at which the weights of the selected elements first reach `target`, from 1 to the sum of all weights.
///
/// The keys `key(x, i)` of the row's `n` elements are all different, and differ in the bits of `varying`. `weight(x, i)` and
/// the sum of all weights are an unsigned or an unsigned long long. All threads of the block call this function, and get the
/// result.
template <class T, class Weight, class KeyOf, class WeightOf>
__device__ Threshold select(const T* row, int n, uint64_t varying, Weight target, KeyOf key, WeightOf weight) {
    __shared__ Weight weights[kDigits];
    __shared__ Weight larger, of_chosen;
    __shared__ unsigned chosen;
    Threshold threshold;
    for (int end = 64; end > 0; end -= kBits) {
        const int shift = end > kBits ? end - kBits : 0;
        const uint64_t bits = (1ull << (end - shift)) - 1;
        if (!(varying >> shift & bits)) continue;

        for (int i = threadIdx.x; i < kDigits; i += blockDim.x) weights[i] = 0;
        __syncthreads();
        tkjit::each_element(row, n, [&](T x, int i) {
            const uint64_t of_element = key(x, i);
            if ((of_element & threshold.mask) != threshold.digits) return;
            if (const Weight own = weight(x, i)) atomicAdd(&weights[of_element >> shift & bits], own);
        });
        __syncthreads();
        if (threadIdx.x < 32) {  // each lane adds up neighbouring digits, lane 0 the largest
            constexpr int share = kDigits / 32;
            const int first = kDigits - 1 - threadIdx.x * share;
            Weight sum = 0;
            for (int i = 0; i < share; ++i) sum += weights[first - i];
            Weight before = sum;
            for (int distance = 1; distance < 32; distance *= 2) {
                const Weight other = __shfl_up_sync(0xffffffff, before, distance);
                if (threadIdx.x >= distance) before += other;
            }
            before -= sum;
            if (before < target && target <= before + sum) {
                unsigned digit = first;
                for (; before + weights[digit] < target; --digit) before += weights[digit];
                chosen = digit, larger = before, of_chosen = weights[digit];
            }
        }
        __syncthreads();
        threshold.digits |= uint64_t(chosen) << shift;
        threshold.mask |= bits << shift;
        target -= larger;
        if (target == of_chosen) break;  // all elements with these digits are selected
    }
    __syncthreads();  // the shared memory is free for the next selection
    return threshold;
}

}  // namespace radix
