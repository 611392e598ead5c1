// A random choice for each row of logits. A block narrows the row down to the elements that `top_k` and then `top_p` allow.
// It chooses the first one at which the sum of their probabilities reaches a random number.
//
// Probabilities are integers, in units of 2^-40 of the largest one, so that their sums do not depend on the order.
#include <tkjit/gl.h>
#include <tkjit/philox.h>
#include <tkjit/reduce.cuh>

#include "radix_select.cuh"

using Mass = unsigned long long;
constexpr float kUnit = 1099511627776.f;  // 2^40

/// The sum of `mass(x, i)` over a row's elements, for all threads.
template <class T, class F>
__device__ Mass sum_of(const T* row, int n, F mass) {
    __shared__ Mass total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    Mass own = 0;
    tkjit::each_element(row, n, [&](T x, int i) { own += mass(x, i); });
    atomicAdd(&total, own);
    __syncthreads();
    const Mass result = total;
    __syncthreads();
    return result;
}

template <typename T>
__global__ void __launch_bounds__(1024) sampling(const __grid_constant__ Globals g) {
    const int n = g.logits.cols();
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
    const auto mass = [&](T logit, int i) -> Mass {
        const float x = float(logit);
        if (isnan(x) || !of_k.selects(key(logit, i)) || !of_p.selects(key(logit, i))) return 0;
        return x == largest ? Mass(kUnit) : Mass(__expf((x - largest) * scale) * kUnit);
    };
    if (g.top_k > 0 && g.top_k < n)
        of_k = radix::select(row, n, varying, unsigned(g.top_k), key, [](T, int) { return 1u; });
    Mass total = sum_of(row, n, mass);
    if (g.top_p < 1.f) {
        const Mass wanted = Mass(fmaxf(g.top_p, 0.f) * double(total));
        of_p = radix::select(row, n, varying, wanted > 1 ? wanted : Mass(1), key, mass);
        total = sum_of(row, n, mass);
    }

    const uint4 bits = g.rng.bits(blockIdx.x);
    const Mass target = __umul64hi(Mass(bits.x) << 32 | bits.y, total) + 1;  // from 1 to the total
    const auto reverse = [](T, int i) { return uint64_t(~unsigned(i)); };
    const auto up_to = radix::select(row, n, varying & 0xffffffff, target, reverse, mass);

    // the last element with a probability among the first ones that reach the target
    __shared__ int chosen;
    if (threadIdx.x == 0) chosen = 0;
    __syncthreads();
    int own = 0;
    tkjit::each_element(row, n, [&](T x, int i) {
        if (up_to.selects(reverse(x, i)) && mass(x, i)) own = max(own, i);
    });
    atomicMax(&chosen, own);
    __syncthreads();
    if (threadIdx.x == 0) g.index[blockIdx.x] = chosen;
}
