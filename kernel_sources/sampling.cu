// Samples an index from each row of logits. A block first finds the elements that `top_k` and then `top_p` keep. Then it finds
// the first one at which the sum of the probabilities reaches a random number: each warp adds up a part of the row, and the
// part that reaches the number is divided again.
//
// Probabilities are integers, in units of 2^-40 of the largest one, so that their sums do not depend on the order.
#include <tkjit/gl.h>
#include <tkjit/philox.h>

#include "radix_select.cuh"

using Mass = unsigned long long;
constexpr float kUnit = 1099511627776.f;  // 2^40
constexpr int kLastPart = 256;            // which one warp searches

/// The sum of a number over a warp, for all lanes.
__device__ Mass sum_of_warp(Mass own) {
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) own += __shfl_xor_sync(radix::kAll, own, mask);
    return own;
}

/// The sums of `mass(i)` over the elements of a row from `begin` to before `end`, divided among the warps. Lane i gets that of
/// warp i.
template <class F>
__device__ Mass sums_of_parts(int begin, int end, int part, F mass) {
    __shared__ Mass of_warp[32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int first = begin + warp * part, last = min(end, first + part);
    Mass own = 0;
#pragma unroll 4
    for (int i = first + lane; i < last; i += 32) own += mass(i);
    own = sum_of_warp(own);
    if (lane == 0) of_warp[warp] = own;
    __syncthreads();
    own = lane < blockDim.x / 32 ? of_warp[lane] : 0;
    __syncthreads();
    return own;
}

template <typename T>
__global__ void __launch_bounds__(512, 1) sampling(const __grid_constant__ Globals g) {
    const int n = g.logits.cols(), warps = blockDim.x / 32, lane = threadIdx.x % 32;
    const T* const row = g.logits.raw_ptr + size_t(blockIdx.x) * n;
    const uint64_t varying = radix::varying_bits<T>(n);
    const auto key = [](T x, int i) { return radix::key_of(isnan(float(x)) ? T(-INFINITY) : x, i); };

    float largest = -INFINITY;
    tkjit::each_element(row, n, [&](T x, int) { largest = fmaxf(largest, float(x)); });
    largest = tkjit::block_reduce<tkjit::Max>(largest);
    if (largest == -INFINITY) {
        if (threadIdx.x == 0) g.index[blockIdx.x] = -1;
        return;
    }

    const float scale = g.temperature > 0.f ? 1.f / g.temperature : INFINITY;
    radix::Threshold of_k, of_p;
    const auto mass_of = [&](T logit, int i) -> Mass {
        const float x = float(logit);
        if (!(x > -INFINITY) || !of_k.selects(key(logit, i)) || !of_p.selects(key(logit, i))) return 0;
        return x == largest ? Mass(kUnit) : Mass(__expf(fminf((x - largest) * scale, 0.f)) * kUnit);
    };
    const auto mass = [&](int i) { return mass_of(row[i], i); };
    int part = (n + warps - 1) / warps;
    if (g.top_k > 0 && g.top_k < n)
        of_k = radix::select(row, n, varying, unsigned(g.top_k), key, [](T, int) { return 1u; });
    if (g.top_p < 1.f) {
        const Mass wanted = Mass(fmaxf(g.top_p, 0.f) * double(sum_of_warp(sums_of_parts(0, n, part, mass))));
        of_p = radix::select(row, n, varying, wanted > 1 ? wanted : Mass(1), key, mass_of);
    }

    Mass of_part = sums_of_parts(0, n, part, mass);
    const uint4 bits = g.rng.bits(blockIdx.x);
    const Mass number = __umul64hi(Mass(bits.x) << 32 | bits.y, sum_of_warp(of_part));
    Mass target = g.temperature > 0.f ? number + 1 : 1;  // at most the sum
    int begin = 0, end = n;
    while (true) {
        const radix::Reached<Mass> reached(of_part, target);
        target -= reached.before;
        begin += reached.lane * part;
        end = min(end, begin + part);
        if (end - begin <= kLastPart) break;
        part = (end - begin + warps - 1) / warps;
        of_part = sums_of_parts(begin, end, part, mass);
    }
    if (threadIdx.x >= 32) return;
    for (Mass before = 0;; begin += 32) {
        const Mass own = begin + lane < end ? mass(begin + lane) : 0, all = sum_of_warp(own);
        if (before + all < target) {
            before += all;
            continue;
        }
        const radix::Reached<Mass> reached(own, target - before);
        if (lane == 0) g.index[blockIdx.x] = begin + reached.lane;
        return;
    }
}
