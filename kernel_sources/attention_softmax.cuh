// The softmax of attention, for products in the layout that `mma` and `wgmma` share: of 16 queries of a warp, a thread has
// lane / 4 and the one eight further, and of each eight keys two. All architectures use it.
//
// Source of the method: Dao, "FlashAttention-2", 2023.
#pragma once

#include <cuda_runtime.h>

#include "exp2.cuh"
#include "pack.cuh"

/// The keys that a query sees, or the queries that see a key: from `first` to before `end`.
struct Seen {
    int first, end;
};

/// The arguments of a call that decide the scores. Scores are in base 2: the product of a query and a key times `factor`, or
/// tanh(product * cap_factor) * factor with a soft cap.
struct Scores {
    int queries, keys, window;
    bool is_causal, is_capped;
    float factor, cap_factor;

    __device__ Scores(int queries, int keys, bool causal, int window, float softcap, float scale)
        : queries(queries),
          keys(keys),
          window(window),
          is_causal(causal || window > 0),
          is_capped(softcap > 0.f),
          factor((is_capped ? softcap : scale) * kLog2E),
          cap_factor(is_capped ? scale / softcap : 0.f) {}

    __device__ Seen seen_by(int query) const {
        const int position = query + keys - queries;  // among the keys
        return {window > 0 ? max(0, position - window + 1) : 0, is_causal ? max(0, min(keys, position + 1)) : keys};
    }

    /// The queries that see any of the keys from `first_key` to `last_key`.
    __device__ Seen queries_of(int first_key, int last_key) const {
        const int position = keys - queries;  // of the first query
        return {is_causal ? max(0, first_key - position) : 0,
                window > 0 ? min(queries, last_key - position + min(window, keys)) : queries};
    }

    /// Whether each of some adjacent queries sees all of some adjacent keys.
    __device__ bool see_all(int first_query, int queries, int first_key, int keys) const {
        return seen_by(first_query + queries - 1).first <= first_key && seen_by(first_query).end >= first_key + keys;
    }
};

/// The tiles of keys that a block's queries see.
struct KeyTiles {
    int first_key, count;

    __device__ KeyTiles(const Scores& scores, int first_query, int queries_of_block, int keys_of_tile) {
        const int last_query = min(first_query + queries_of_block, scores.queries) - 1;
        first_key = scores.seen_by(first_query).first / keys_of_tile * keys_of_tile;
        count = max(0, (scores.seen_by(last_query).end - first_key + keys_of_tile - 1) / keys_of_tile);
    }
};

/// The softmax of a thread's two queries over the tiles of keys so far.
struct OnlineSoftmax {
    float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {};
    float shrinking[2];  // the factors by which the last tile has made earlier sums smaller

    /// Replaces products by exp2 of their scores, less that of the largest so far. `query` is the thread's first query, and
    /// `first_query` that of the `queries` adjacent queries whose threads call this function together.
    template <int Count>
    __device__ void add(float (&products)[Count], const Scores& scores, int first_query, int queries, int query, int first_key) {
        constexpr int keys = 2 * Count;
        if (scores.is_capped)
#pragma unroll
            for (float& product : products) product = tanhf(product * scores.cap_factor);
        if (!scores.see_all(first_query, queries, first_key, keys)) {
            const Seen seen[2] = {scores.seen_by(query), scores.seen_by(query + 8)};
#pragma unroll
            for (int i = 0; i < Count; ++i) {
                const int key = first_key + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2, row = i / 2 % 2;
                if (key < seen[row].first || key >= seen[row].end) products[i] = -INFINITY;
            }
        }
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            const float before = largest[row];
#pragma unroll
            for (int i = 0; i < Count; ++i)
                if (i / 2 % 2 == row) largest[row] = fmaxf(largest[row], products[i]);
            for (int mask = 1; mask <= 2; mask *= 2)
                largest[row] = fmaxf(largest[row], __shfl_xor_sync(0xffffffff, largest[row], mask));
            const float base = largest[row] == -INFINITY ? 0.f : largest[row] * scores.factor;  // -inf + inf would be NaN
            shrinking[row] = exp2_of(before * scores.factor - base);
            float added = 0.f;
#pragma unroll
            for (int i = 0; i < Count; ++i)
                if (i / 2 % 2 == row) added += products[i] = exp2_of(products[i] * scores.factor - base);
            sum[row] = sum[row] * shrinking[row] + added;
        }
    }

    /// Adds up the sums of the four threads of a query, after all tiles.
    __device__ void finish() {
        for (float& one : sum)
            for (int mask = 1; mask <= 2; mask *= 2) one += __shfl_xor_sync(0xffffffff, one, mask);
    }
    __device__ float inverse(int row) const { return sum[row] == 0.f ? 0.f : 1.f / sum[row]; }
    __device__ float log_sum_exp(int row, const Scores& scores) const {
        return sum[row] == 0.f ? -INFINITY : (largest[row] * scores.factor + log2f(sum[row])) / kLog2E;
    }
};
