// Finds the largest elements of a row by radix selection. Each pass over the row adds up the weights of its elements by one
// digit of their keys, finds the digit at which the running sum from the largest digit on reaches the target, and goes on with
// the elements that have that digit. The weight of an element is 1 or, for example, its probability.
//
// Source: Alabi, Blanchard, Gordon and Steinbach, "Fast k-Selection Algorithms for Graphics Processing Units", 2012.
#pragma once

#include <tkjit/row.cuh>

#include <stdint.h>

#include <type_traits>

namespace radix {

constexpr int kBits = 11, kDigits = 1 << kBits;  // of a digit; each pass finds one
constexpr unsigned kAll = 0xffffffff;

/// Selects the keys whose leading bits, those of `mask`, are at least `digits`.
struct Threshold {
    uint64_t digits = 0, mask = 0;

    __device__ bool selects(uint64_t key) const { return (key & mask) >= digits; }
};

/// Orders keys by value, and equal values by index, the lower index being the larger key. NaN is the largest value.
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

/// The first lane at which the running sum of the lanes' weights reaches a target, and the sum before it.
template <class Weight>
struct Reached {
    int lane;
    Weight before;

    __device__ Reached(Weight own, Weight target) {
        const Weight sum = tkjit::warp_scan(own);
        const unsigned reached = __ballot_sync(kAll, sum >= target);
        lane = reached ? __ffs(reached) - 1 : 31;
        before = __shfl_sync(kAll, sum - own, lane);
    }
};

/// Sums of weights by digit. A sum of 64 bits is two words, because only words can be added in shared memory at once.
template <class Weight>
struct Sums {
    static constexpr bool is_wide = sizeof(Weight) == 8;
    static constexpr int places = kDigits + kDigits / 64;  // the gaps stagger the digits that a warp reads over the banks
    unsigned low[places], high[is_wide ? places : 1];

    static __device__ int place(int digit) { return digit + digit / 64; }

    __device__ void clear() {
        for (int i = threadIdx.x; i < places; i += blockDim.x) {
            low[i] = 0;
            if constexpr (is_wide) high[i] = 0;
        }
    }
    __device__ void add(int digit, Weight weight) {
        if constexpr (is_wide) {
            const unsigned added = unsigned(weight), before = atomicAdd(&low[place(digit)], added);
            const unsigned more = unsigned(weight >> 32) + (before + added < before);  // with the carry
            if (more) atomicAdd(&high[place(digit)], more);
        } else {
            atomicAdd(&low[place(digit)], weight);
        }
    }
    __device__ Weight operator[](int digit) const {
        if constexpr (is_wide) return Weight(high[place(digit)]) << 32 | low[place(digit)];
        else return low[place(digit)];
    }
};

/// Finds the threshold at which the weights of the selected elements first reach `target`, from 1 to the sum of all weights.
///
/// The keys `key(x, i)` of the row's `n` elements are all different, and differ only in the bits of `varying`. `weight(x, i)`
/// and the sum of all weights are an unsigned or an unsigned long long. All threads of the block call this function, and get
/// the result.
template <class T, class Weight, class KeyOf, class WeightOf>
__device__ Threshold select(const T* row, int n, uint64_t varying, Weight target, KeyOf key, WeightOf weight) {
    __shared__ Sums<Weight> sums;
    __shared__ Weight larger, of_chosen;
    __shared__ unsigned chosen;
    Threshold threshold;
    for (int end = 64; end > 0; end -= kBits) {
        const int shift = end > kBits ? end - kBits : 0;
        const uint64_t bits = (1ull << (end - shift)) - 1;
        if (!(varying >> shift & bits)) continue;

        sums.clear();
        __syncthreads();
        tkjit::each_element(row, n, [&](T x, int i) {
            const uint64_t of_element = key(x, i);
            if ((of_element & threshold.mask) != threshold.digits) return;
            if (const Weight own = weight(x, i)) sums.add(of_element >> shift & bits, own);
        });
        __syncthreads();
        if (threadIdx.x < 32) {  // each lane adds up 64 digits, lane 0 the largest; then two of the 64 that reach the target
            constexpr int share = kDigits / 32;
            Weight own = 0;
            for (int i = 0; i < share; ++i) own += sums[kDigits - 1 - threadIdx.x * share - i];
            const Reached<Weight> part(own, target);
            const int first = kDigits - 1 - part.lane * share, pair = first - 2 * threadIdx.x;
            const Reached<Weight> of_part(sums[pair] + sums[pair - 1], target - part.before);
            int digit = first - 2 * of_part.lane;
            Weight before = part.before + of_part.before;
            if (before + sums[digit] < target) before += sums[digit--];
            if (threadIdx.x == 0) chosen = digit, larger = before, of_chosen = sums[digit];
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
