// Random numbers by Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
// They are numbered as in curand's curandStatePhilox4_32_10_t and in torch: the same seed and offset give the same bits
// on a GPU and on the CPU.
#pragma once

#ifndef __CUDACC_RTC__
#include <tkjit/arg.h>
#include <tkjit/convert.h>
#endif
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

namespace tkjit {

// The field of a parameter of type Generator. Each thread uses its own subsequence, usually its index in the grid. `i` is
// the index of the draw in the subsequence; a draw has 4 numbers.
struct philox {
    uint64_t seed = 0;
    uint64_t offset = 0;  // in numbers, a multiple of 4

    __host__ __device__ constexpr uint4 bits(uint64_t subsequence, uint64_t i = 0) const {
        const uint64_t draw = offset / 4 + i;
        uint32_t x = uint32_t(draw), y = uint32_t(draw >> 32), z = uint32_t(subsequence), w = uint32_t(subsequence >> 32);
        uint32_t key = uint32_t(seed), other_key = uint32_t(seed >> 32);
        for (int round = 0; round < 10; ++round) {
            const uint64_t of_x = uint64_t(0xD2511F53u) * x, of_z = uint64_t(0xCD9E8D57u) * z;
            x = uint32_t(of_z >> 32) ^ y ^ key;
            y = uint32_t(of_z);
            z = uint32_t(of_x >> 32) ^ w ^ other_key;
            w = uint32_t(of_x);
            key += 0x9E3779B9u;
            other_key += 0xBB67AE85u;
        }
        uint4 four{};
        four.x = x, four.y = y, four.z = z, four.w = w;
        return four;
    }

    // Uniform in (0, 1].
    __host__ __device__ constexpr float4 uniform(uint64_t subsequence, uint64_t i = 0) const {
        const uint4 four = bits(subsequence, i);
        float4 made{};
        made.x = fraction(four.x), made.y = fraction(four.y), made.z = fraction(four.z), made.w = fraction(four.w);
        return made;
    }

    // Normal with mean 0 and variance 1, by the Box-Muller method.
    __host__ __device__ float4 normal(uint64_t subsequence, uint64_t i = 0) const {
        const float4 u = uniform(subsequence, i);
        constexpr float two_pi = 6.2831853f;
        const float radius = sqrtf(-2.0f * logf(u.x)), other_radius = sqrtf(-2.0f * logf(u.z));
        float4 made{};
        made.x = radius * sinf(two_pi * u.y), made.y = radius * cosf(two_pi * u.y);
        made.z = other_radius * sinf(two_pi * u.w), made.w = other_radius * cosf(two_pi * u.w);
        return made;
    }

private:
    __host__ __device__ static constexpr float fraction(uint32_t bits) {
        constexpr float step = 2.3283064e-10f;  // 2 to the power of -32
        return float(bits) * step + step / 2;
    }
};

#ifndef __CUDACC_RTC__
template <>
struct converter<philox> {
    static philox from(const TkjitArg& arg) { return {uint64_t(arg.integer), uint64_t(arg.extents[0])}; }
};
#endif

}  // namespace tkjit
