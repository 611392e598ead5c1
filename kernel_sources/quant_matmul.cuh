// y = x * w^T for quantised weights, in groups of 128 along K that share a scale. The weights are the larger operand, so they
// are read once for every 16 rows of x, with loads of 16 bytes, directly into the registers from which `mma` takes them.
//
// A block computes a tile of y with 16 rows. Its warps take turns with the groups along K, and add up their sums at the end.
// In a step, a lane has 32 weights of one row of w. A sum over k does not depend on the order of k, so the lane's
// elements are paired as they can be extracted fastest, and those of x in the same way.
#pragma once

#include <tkjit/gl.h>
#include <tkjit/mma.cuh>

#include <type_traits>

#include "gemm_split.cuh"
#include "pack.cuh"

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kGroup = 128, kRows = 16;  // of x
constexpr int kShare = kGroup / 4;       // elements of a group in a lane

template <class T>
constexpr bool is_half = std::is_same_v<T, __half>;
template <class T>
using Pair = std::conditional_t<is_half<T>, __half2, __nv_bfloat162>;

/// A pair (element i, element i + half) of `half` pairs, from two registers of adjacent 16-bit elements.
__device__ inline uint32_t pair_of(const uint32_t* adjacent, int i, int half) {
    return __byte_perm(adjacent[i / 2], adjacent[(i + half) / 2], i % 2 ? 0x7632 : 0x5410);
}

/// Computes a tile of y. `Weights` describes how the weights are stored:
///
///   per_word            the number of weights in a register
///   Weights(g, number)  reads what the weights of a group share
///   pair(word, i)       the weights i and i + per_word / 2 of a register, as two elements of T
template <class T, class Weights, class Problem>
__device__ void multiply(const Problem& g) {
    constexpr int words = kShare / Weights::per_word;  // of a lane in a group
    constexpr int tiles = 32 / words, cols = 8 * tiles, half = Weights::per_word / 2;
    constexpr int count = kRows * cols / kThreads;
    const int m = g.y.batch() * g.y.depth() * g.y.rows(), n = g.y.cols(), groups = g.x.cols() / kGroup;
    const int tiles_down = (m + kRows - 1) / kRows;  // tiles with the same weights follow each other
    const Split split{int(blockIdx.x / g.splits), int(blockIdx.x % g.splits), g.splits};
    const int first_row = split.tile % tiles_down * kRows, first_col = split.tile / tiles_down * cols;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, quarter = lane % 4;
    const auto begin = [&](int number) { return int(int64_t(groups) * number / split.count); };

    // the number of a lane's group of weights; a column past the end has those of the last one, and is not stored
    const auto number_of = [&](int tile, int group) -> unsigned {
        return min(first_col + 8 * tile + lane / 4, n - 1) * groups + group;
    };

    float sums[tiles][4] = {};
    for (int group = begin(split.number) + warp; group < begin(split.number + 1); group += kWarps) {
        uint32_t weights[tiles][words];
#pragma unroll
        for (int tile = 0; tile < tiles; ++tile) {
            const auto* from = reinterpret_cast<const uint4*>(g.weight.raw_ptr) + number_of(tile, group) * words + quarter;
#pragma unroll
            for (int i = 0; i < words / 4; ++i) reinterpret_cast<uint4&>(weights[tile][4 * i]) = __ldcs(from + 4 * i);
        }
        Weights formats[tiles];
#pragma unroll
        for (int tile = 0; tile < tiles; ++tile) formats[tile] = Weights(g, number_of(tile, group));
        uint32_t x[2][kShare / 2] = {};  // of the rows lane / 4 and eight further
#pragma unroll
        for (int down = 0; down < 2; ++down) {
            const int row = first_row + lane / 4 + 8 * down;
            if (row >= m) continue;
            const auto* from = reinterpret_cast<const uint4*>(g.x.raw_ptr + (size_t(row) * groups + group) * kGroup);
#pragma unroll
            for (int i = 0; i < kShare / 8; ++i) {
                constexpr int adjacent = Weights::per_word / 2;  // loads of x for one load of weights
                const int load = i / adjacent * 4 + quarter;     // of the group's loads of weights
                reinterpret_cast<uint4&>(x[down][4 * i]) = from[load * adjacent + i % adjacent];
            }
        }
#pragma unroll
        for (int tile = 0; tile < tiles; ++tile) {
            const Weights& format = formats[tile];
            float products[4] = {};
#pragma unroll
            for (int word = 0; word < words; ++word)
#pragma unroll
                for (int i = 0; i < half; i += 2) {
                    const uint32_t* const adjacent[2] = {x[0] + word * half, x[1] + word * half};
                    const uint32_t a[4] = {pair_of(adjacent[0], i, half), pair_of(adjacent[1], i, half),
                                           pair_of(adjacent[0], i + 1, half), pair_of(adjacent[1], i + 1, half)};
                    const uint32_t b[2] = {format.pair(weights[tile][word], i), format.pair(weights[tile][word], i + 1)};
                    tkjit::mma_m16n8k16<T>(products, a, b, products);
                }
#pragma unroll
            for (int i = 0; i < 4; ++i)  // the scale of a column is in the first lane that read its weights
                sums[tile][i] += products[i] * __shfl_sync(0xffffffff, float(format.scale), 4 * (2 * quarter + i % 2));
        }
    }

    __shared__ float of_warp[kWarps][kRows][cols + 8];  // the padding staggers the rows over the banks
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile)
#pragma unroll
        for (int i = 0; i < 4; i += 2)
            reinterpret_cast<float2&>(of_warp[warp][lane / 4 + i / 2 * 8][8 * tile + 2 * quarter]) = {sums[tile][i], sums[tile][i + 1]};
    __syncthreads();
    float total[count] = {};
    for (int i = 0; i < count; ++i) {
        const int at = threadIdx.x + i * kThreads;
        for (int other = 0; other < kWarps; ++other) total[i] += of_warp[other][at / cols][at % cols];
    }
    if (split.count > 1) {
        __shared__ bool is_last;
        if (!add_splits<kThreads>(g.partial, split, threadIdx.x, is_last, total, {true, true}, [] { __syncthreads(); })) return;
    }
    for (int i = 0; i < count; ++i) {
        const int at = threadIdx.x + i * kThreads, row = first_row + at / cols, col = first_col + at % cols;
        if (row < m && col < n) g.y.raw_ptr[size_t(row) * n + col] = T(total[i]);
    }
}
