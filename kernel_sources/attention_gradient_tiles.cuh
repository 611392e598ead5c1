// The work of a block of attention_gradient_90a.cu, and the warp that copies tiles to shared memory for it.
#pragma once

#include <tkjit/gl.h>
#include <tkjit/mbarrier.cuh>
#include <tkjit/tensor_map.cuh>

#include <algorithm>

#include "attention_softmax.cuh"

constexpr int kWarpgroup = 128, kConsumers = 2, kThreads = kWarpgroup * (1 + kConsumers);
constexpr int kSide = 64;  // rows and columns of a box, and own rows of a warpgroup

template <typename T>
using Boxes = tkjit::tiled_batch<T, kSide, kSide>;

template <typename T, int D>
struct Problem {
    Boxes<T> grad_o;
    tkjit::gl<float, 1> inner;
    Boxes<T> q, k, v;
    tkjit::gl<float, 1> lse;
    bool causal;
    int window;
    float softcap;
    tkjit::optional<float> scale;
    Boxes<T> grad_q, grad_k, grad_v;
};

/// The factors of the gradients of shares, on their way from the first warpgroup to the second, in the order of its threads.
struct Exchange {
    float4 factors[2][kSide / 8][kWarpgroup];
    uint64_t full[2], empty[2];
};
struct NoExchange {};

/// The shape of a block, which owns either keys or queries.
template <int D, bool OfKeys>
struct Part {
    static constexpr bool is_split = OfKeys && D > 128;  // the two warpgroups own the same rows
    static constexpr int owners = is_split ? 1 : kConsumers, rows = kSide * owners;
    // the rows of a tile; 128 would take too many registers for the keys, and too much memory for the queries
    static constexpr int others = D > (OfKeys ? 64 : 128) ? 64 : 128;
    static constexpr int own_bytes = 2 * rows * D * 2, tile_bytes = others * D * 2;
    static constexpr int slots = std::min(8, (224 * 1024 - own_bytes - (is_split ? 32 * 1024 : 0)) / tile_bytes);

    static __host__ __device__ int blocks_of_head(int length) { return (length + rows - 1) / rows; }

    // of an item, which is a tile in the order of the copies
    static __device__ uint32_t slot_of(uint32_t item) { return item % slots; }
    static __device__ uint32_t parity_of(uint32_t item) { return item / slots % 2; }
};

/// The terms of pairs of queries: lse in base 2, and -inner.
template <int Pairs>
struct Terms {
    float2 lse[Pairs], minus_inner[Pairs];
};

/// A slot holds a tile of the second matrix (grad_o or v), then one of the first (q or k), and so on.
template <typename T, int D, bool OfKeys>
struct Shared {
    using Of = Part<D, OfKeys>;
    template <int Rows>
    using Tile = T[D / kSide][Rows * kSide];

    alignas(1024) Tile<kSide> own[2][Of::owners];  // k and v, or q and grad_o; then the gradients
    Tile<Of::others> slots[Of::slots];
    std::conditional_t<Of::is_split, Exchange, NoExchange> exchange;
    Terms<Of::others / 2> terms[OfKeys ? Of::slots : 1];
    uint64_t own_full, full[Of::slots], empty[Of::slots];
};

template <typename T, int D>
struct Launch {
    static constexpr int threads = kThreads;
    static constexpr size_t shared_bytes = std::max(sizeof(Shared<T, D, true>), sizeof(Shared<T, D, false>));
    static_assert(shared_bytes <= 227 * 1024, "a block has at most 227 KB of shared memory");

    static int blocks(int batches, int heads, int key_heads, int queries, int keys) {
        const int of_keys = Part<D, true>::blocks_of_head(keys), of_queries = Part<D, false>::blocks_of_head(queries);
        return batches * (key_heads * of_keys + heads * of_queries);
    }
};

/// The work of a block: its rows, and the tiles of each head of the others.
template <int D, bool OfKeys>
struct Work {
    int head, first_row, first_head, heads, first_other, tiles;

    __device__ Work(const Scores& scores, int group, int number) {
        using Of = Part<D, OfKeys>;
        const int length = OfKeys ? scores.keys : scores.queries, blocks = Of::blocks_of_head(length);
        head = number / blocks;
        // the first keys are seen by most queries and the last queries see most keys, so they start first
        first_row = (OfKeys ? number % blocks : blocks - 1 - number % blocks) * Of::rows;
        first_head = OfKeys ? head * group : head / group;
        heads = OfKeys ? group : 1;
        const int last_row = min(first_row + Of::rows, length) - 1;
        const Seen others = OfKeys ? scores.queries_of(first_row, last_row)
                                   : Seen{scores.seen_by(first_row).first, scores.seen_by(last_row).end};
        first_other = others.first;
        tiles = heads == 0 ? 0 : max(0, (others.end - others.first + Of::others - 1) / Of::others);
    }
};

/// The terms of a query. One that sees no key, or is past the end, gets shares of 0 from an infinite lse.
template <class Problem>
__device__ float2 term_of(const Problem& g, const Scores& scores, int head, int query) {
    const size_t number = size_t(head) * scores.queries + query;
    const float lse = query < scores.queries ? g.lse.raw_ptr[number] : -INFINITY;
    return lse == -INFINITY ? float2{INFINITY, 0.f} : float2{lse * kLog2E, -g.inner.raw_ptr[number]};
}

/// Starts the copies of all tiles, with one warp.
template <typename T, int D, bool OfKeys>
__device__ void produce(Shared<T, D, OfKeys>& shared, const Problem<T, D>& g, const Work<D, OfKeys>& work,
                        const Scores& scores) {
    using Of = Part<D, OfKeys>;
    constexpr int pairs = Of::others / 2 / 32;  // of queries of a tile, for each lane
    const int lane = threadIdx.x;
    const auto load_own = [&](int matrix, const Boxes<T>& from) {
        for (int owner = 0; owner < Of::owners; ++owner)
            for (int box = 0; box < D / kSide; ++box)
                tkjit::tensor_load(shared.own[matrix][owner][box], from, work.head, work.first_row + owner * kSide, box * kSide,
                                   &shared.own_full);
    };
    if (lane == 0 && work.tiles > 0) {
        tkjit::mbarrier_arrive_expect_bytes(&shared.own_full, sizeof(shared.own));
        load_own(0, OfKeys ? g.k : g.q);
        load_own(1, OfKeys ? g.v : g.grad_o);
    }
    uint32_t item = 0;
    const auto load = [&](const Boxes<T>& from, int head, int first, const float2 (*terms)[2]) {
        const uint32_t slot = Of::slot_of(item);
        tkjit::mbarrier_wait(&shared.empty[slot], Of::parity_of(item) ^ 1);  // the first round does not wait
        ++item;
        if (lane == 0) {
            tkjit::mbarrier_expect_bytes(&shared.full[slot], sizeof(shared.slots[slot]));
            for (int box = 0; box < D / kSide; ++box)
                for (int row = 0; row < Of::others; row += kSide)
                    tkjit::tensor_load(shared.slots[slot][box] + row * kSide, from, head, first + row, box * kSide,
                                       &shared.full[slot]);
        }
        if (OfKeys && terms)
            for (int i = 0; i < pairs; ++i) {
                shared.terms[slot].lse[lane + 32 * i] = {terms[i][0].x, terms[i][1].x};
                shared.terms[slot].minus_inner[lane + 32 * i] = {terms[i][0].y, terms[i][1].y};
            }
        __syncwarp();
        if (lane == 0) tkjit::mbarrier_arrive(&shared.full[slot]);
    };
    for (int head = work.first_head; head < work.first_head + work.heads; ++head)
        for (int tile = 0; tile < work.tiles; ++tile) {
            const int first = work.first_other + tile * Of::others;
            float2 terms[pairs][2];
            if constexpr (OfKeys)
                for (int i = 0; i < 2 * pairs; ++i)
                    terms[i / 2][i % 2] = term_of(g, scores, head, first + i / 2 * 64 + 2 * lane + i % 2);
            load(OfKeys ? g.grad_o : g.v, head, first, nullptr);
            load(OfKeys ? g.q : g.k, head, first, terms);
        }
}
