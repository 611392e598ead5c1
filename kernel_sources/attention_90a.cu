// Attention for Hopper. A block computes 128 queries of one head: one warpgroup starts TMA copies of tiles of keys and values
// into rings of two stages, and two others compute 64 queries each.
//
// A warpgroup keeps its scores and its output in registers. It starts the products of the next tile's keys before those of
// the last tile's values, so that the tensor cores work while it computes the exponentials; and the two warpgroups do not
// wait for each other.
//
// Source of the method: Shah et al., "FlashAttention-3", 2024.
#include <tkjit/bulk_copy.cuh>
#include <tkjit/gl.h>
#include <tkjit/mbarrier.cuh>
#include <tkjit/named_barrier.cuh>
#include <tkjit/registers.cuh>
#include <tkjit/stmatrix.cuh>
#include <tkjit/tensor_map.cuh>
#include <tkjit/wgmma.cuh>

#include "attention_rows.cuh"
#include "attention_softmax.cuh"

constexpr int kWarpgroup = 128, kConsumers = 2, kStages = 2;
constexpr int kQueries = 64, kCols = 64;  // of a warpgroup; of a box, whose rows have 128 bytes

template <int D>
constexpr int kKeys = D > 128 ? 64 : 128;  // of a tile

/// A packed tensor (S, H, D) as a matrix for each head, whose rows have a distance of H * D elements.
template <class T, int Rows>
struct PackedHeads : tkjit::tiled_batch<T, Rows, kCols> {
    using made_from = tkjit::gl<T, 1>;
    PackedHeads(const made_from& packed) : tkjit::tiled_batch<T, Rows, kCols>(by_head(packed)) {}

private:
    static tkjit::strided<T, 3> by_head(const made_from& packed) {
        const int total = packed.depth(), heads = packed.rows(), cols = packed.cols();
        return {packed.raw_ptr, {heads, total, cols}, {cols, int64_t(heads) * cols, 1}};
    }
};

template <typename T, int D, bool is_packed>
struct Problem {
    tkjit::tiled_batch<T, kQueries, kCols> q;
    tkjit::tiled_batch<T, kKeys<D>, kCols> k, v;
    bool causal;
    int window;
    float softcap;
    tkjit::optional<float> scale;
    tkjit::tiled_batch<T, kQueries, kCols> o;
    tkjit::gl<float, 1> lse;

    __device__ DenseBlock<D> block() const {
        return {q.rows(), k.rows(), q.extents[1], k.extents[1], kQueries * kConsumers};
    }
};

template <typename T, int D>
struct Problem<T, D, true> {
    PackedHeads<T, kQueries> q;
    PackedHeads<T, kKeys<D>> k, v;
    tkjit::gl<int, 1, 1, 1> cu_seqlens_q, cu_seqlens_k;
    bool causal;
    int window;
    float softcap;
    tkjit::optional<float> scale;
    PackedHeads<T, kQueries> o;
    tkjit::gl<float, 1, 1> lse;

    __device__ PackedBlock<D> block() const {
        const int sequences = cu_seqlens_q.cols() - 1;
        const Sequences of_queries{cu_seqlens_q.raw_ptr, sequences, q.extents[1], q.rows()};
        const Sequences of_keys{cu_seqlens_k.raw_ptr, sequences, k.extents[1], k.rows()};
        return {of_queries, of_keys, kQueries * kConsumers};
    }
};

template <typename T, int D>
struct Shared {
    static constexpr int boxes = D / kCols;
    using KeyTile = T[boxes][kKeys<D> * kCols];
    using QueryTile = T[boxes][kQueries * kCols];
    alignas(1024) KeyTile k[kStages], v[kStages];
    QueryTile q[kConsumers];  // then the output
    uint64_t q_full, k_full[kStages], k_empty[kStages], v_full[kStages], v_empty[kStages];
    uint64_t incomplete_v;  // the copy of `load_incomplete_values`
};

template <typename T, int D>
struct Launch {
    static constexpr int threads = kWarpgroup * (1 + kConsumers), queries = kQueries * kConsumers;  // of a block
    static constexpr size_t shared_bytes = sizeof(Shared<T, D>);
};

/// Starts the copy of a tile of keys or values.
template <int D, class Tile, class Block, class Heads>
__device__ void load(Tile& tile, const Heads& from, const Block& block, int first_key, uint64_t* full) {
    tkjit::mbarrier_arrive_expect_bytes(full, sizeof(tile));
    for (int box = 0; box < D / kCols; ++box)
        tkjit::tensor_load(tile[box], from, block.key_head, block.keys.begin + first_key, box * kCols, full);
}

/// Starts all copies, except that of the last values if they are incomplete.
template <typename T, int D, bool is_packed, class Block>
__device__ void produce(Shared<T, D>& shared, const Problem<T, D, is_packed>& g, const Block& block, const KeyTiles& tiles,
                        int complete_values) {
    constexpr int boxes = Shared<T, D>::boxes;
    tkjit::mbarrier_arrive_expect_bytes(&shared.q_full, sizeof(shared.q));
    for (int consumer = 0; consumer < kConsumers; ++consumer)
        for (int box = 0; box < boxes; ++box)
            tkjit::tensor_load(shared.q[consumer][box], g.q, block.head,
                               block.queries.begin + block.first_query + consumer * kQueries, box * kCols, &shared.q_full);
    for (int step = 0; step < tiles.count; ++step) {
        const int at = step % kStages, first_key = tiles.first_key + step * kKeys<D>;
        const int parity = step / kStages % 2 ^ 1;  // the first round does not wait
        tkjit::mbarrier_wait(&shared.k_empty[at], parity);
        load<D>(shared.k[at], g.k, block, first_key, &shared.k_full[at]);
        if (is_packed && step == complete_values) return;
        tkjit::mbarrier_wait(&shared.v_empty[at], parity);
        load<D>(shared.v[at], g.v, block, first_key, &shared.v_full[at]);
    }
}

/// Copies the last tile of values, if the rows of another sequence follow those of the block's. Zeros replace them: their
/// shares are 0, but 0 * inf would be NaN. The threads of a warp call this.
template <typename T, int D, class Block>
__device__ void load_incomplete_values(Shared<T, D>& shared, const Problem<T, D, true>& g, const Block& block,
                                       const KeyTiles& tiles) {
    constexpr int vectors = kCols * sizeof(T) / 16;  // of a row
    const int step = tiles.count - 1, at = step % kStages, first_key = tiles.first_key + step * kKeys<D>;
    if (threadIdx.x == 0) {
        tkjit::mbarrier_wait(&shared.v_empty[at], step / kStages % 2 ^ 1);
        load<D>(shared.v[at], g.v, block, first_key, &shared.incomplete_v);
    }
    __syncwarp();
    tkjit::mbarrier_wait(&shared.incomplete_v, 0);
    for (auto& box : shared.v[at])
        for (int i = (block.keys.length - first_key) * vectors + threadIdx.x; i < kKeys<D> * vectors; i += 32)
            reinterpret_cast<uint4*>(box)[i] = {};
    tkjit::fence_async_proxy();
    __syncwarp();
    if (threadIdx.x == 0) tkjit::mbarrier_arrive(&shared.v_full[at]);
}

/// Stores the rows of a tile that are queries of the block's sequence.
template <typename T, int D>
__device__ void store_rows(T* to, int stride, int rows, const typename Shared<T, D>::QueryTile& tile) {
    constexpr int vector = 16 / sizeof(T), vectors = D / vector;
    for (int i = threadIdx.x % kWarpgroup; i < rows * vectors; i += kWarpgroup) {
        const int row = i / vectors, col = i % vectors * vector;
        const auto place = tkjit::place_in_tile<tkjit::tiled_batch<T, kQueries, kCols>>(row, col % kCols);
        const char* const from = reinterpret_cast<const char*>(tile[col / kCols]) + place;
        *reinterpret_cast<uint4*>(to + size_t(row) * stride + col) = *reinterpret_cast<const uint4*>(from);
    }
}

template <typename T, int D, bool is_packed, class Block>
__device__ void consume(Shared<T, D>& shared, const Problem<T, D, is_packed>& g, const Block& block, const KeyTiles& tiles,
                        const Scores& scores) {
    constexpr int keys = kKeys<D>, boxes = Shared<T, D>::boxes, depth = tkjit::wgmma_depth<T>;
    const int consumer = threadIdx.x / kWarpgroup - 1, lane = threadIdx.x % 32;
    const int first_query = block.first_query + consumer * kQueries;
    auto& q = shared.q[consumer];

    float products[keys / 2], output[D / 2] = {};
    uint32_t shares[keys / depth][4];  // exp2 of the scores, as the left operand of the products with values
    OnlineSoftmax softmax;

    const auto release = [&](uint64_t* empty) {
        if (lane == 0) tkjit::mbarrier_arrive(empty);
    };
    const auto start_scores = [&](int step) {
        const int at = step % kStages;
        tkjit::mbarrier_wait(&shared.k_full[at], step / kStages % 2);
#pragma unroll
        for (float& product : products) product = 0.f;
        tkjit::wgmma_fence(products);
#pragma unroll
        for (int box = 0; box < boxes; ++box) {
            const auto a = tkjit::wgmma_rows(q[box]), b = tkjit::wgmma_rows(shared.k[at][box]);
#pragma unroll
            for (int k = 0; k < kCols / depth; ++k) tkjit::wgmma<keys, T>(products, a.advanced(k), b.advanced(k));
        }
        tkjit::wgmma_commit();
    };
    const auto start_output = [&](int step) {
        const int at = step % kStages;
        tkjit::mbarrier_wait(&shared.v_full[at], step / kStages % 2);
        const auto values = tkjit::wgmma_columns(shared.v[at], sizeof(shared.v[at][0]));
        tkjit::wgmma_fence(output);
#pragma unroll
        for (int k = 0; k < keys / depth; ++k) tkjit::wgmma<D, T, true>(output, shares[k], values.advanced(k));
        tkjit::wgmma_commit();
    };
    const auto exponentiate = [&](int step) {
        softmax.add(products, scores, first_query, kQueries, first_query + tkjit::wgmma_row(0), tiles.first_key + step * keys);
    };

    tkjit::mbarrier_wait(&shared.q_full, 0);
    if (tiles.count > 0) {
        start_scores(0);
        tkjit::wgmma_wait<0>(products);
        release(&shared.k_empty[0]);
        exponentiate(0);
        pack_all<T>(shares, products);
    }
    for (int step = 1; step < tiles.count; ++step) {
        start_scores(step);
        start_output(step - 1);
        tkjit::wgmma_wait<1>(products);
        release(&shared.k_empty[step % kStages]);
        exponentiate(step);
        tkjit::wgmma_wait<0>(output);
        release(&shared.v_empty[(step - 1) % kStages]);
#pragma unroll
        for (int i = 0; i < D / 2; ++i) output[i] *= softmax.shrinking[i / 2 % 2];
        pack_all<T>(shares, products);
    }
    if (tiles.count > 0) {
        start_output(tiles.count - 1);
        tkjit::wgmma_wait<0>(output);
    }

    softmax.finish();
    for (int row = 0; row < 2; ++row) {
        const int query = first_query + tkjit::wgmma_row(2 * row);
        if (lane % 4 == 0 && query < scores.queries)
            g.lse.raw_ptr[block.queries.number(block.head) + query] = softmax.log_sum_exp(row, scores);
    }
    const float inverse[2] = {softmax.inverse(0), softmax.inverse(1)};
#pragma unroll
    for (int i = 0; i < D / 2; i += 8) {  // 16 columns
        uint32_t pairs[4];
#pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
            const int at = i + 2 * pair;
            pairs[pair] = pack(T(), output[at] * inverse[pair % 2], output[at + 1] * inverse[pair % 2]);
        }
        const int row = threadIdx.x % kWarpgroup / 32 * 16 + lane % 16, col = 2 * i % kCols + lane / 16 * 8;
        const auto place = tkjit::place_in_tile<decltype(g.o)>(row, col);
        tkjit::stmatrix_x4(reinterpret_cast<char*>(q[2 * i / kCols]) + place, pairs);
    }
    tkjit::fence_async_proxy();
    tkjit::named_barrier_sync(1 + consumer, kWarpgroup);
    if constexpr (is_packed) {
        if (first_query + kQueries > scores.queries) {  // a copy of the tile would write to the next sequence
            T* const to = g.o.raw_ptr + block.queries.offset(block.head) + size_t(first_query) * block.queries.stride;
            return store_rows<T, D>(to, block.queries.stride, scores.queries - first_query, q);
        }
    }
    if (threadIdx.x % kWarpgroup != 0) return;
    const int first_row = block.queries.begin + first_query;
    for (int box = 0; box < boxes; ++box) tkjit::tensor_store(g.o, block.head, first_row, box * kCols, q[box]);
    tkjit::bulk_store_commit();
    tkjit::bulk_store_wait_read<0>();
}

template <typename T, int D, bool is_packed>
__global__ void __launch_bounds__((Launch<T, D>::threads), 1) attention(const __grid_constant__ Problem<T, D, is_packed> g) {
    using Block = Shared<T, D>;
    TKJIT_DYNAMIC_SHARED(Block, shared);
    const auto block = g.block();
    if (block.is_idle) return;
    const Scores scores(block.queries.length, block.keys.length, g.causal, g.window, g.softcap, g.scale.value_or(rsqrtf(D)));
    const KeyTiles tiles(scores, block.first_query, Launch<T, D>::queries, kKeys<D>);

    if (threadIdx.x == 0) {
        if (tiles.count > 0) {
            tkjit::prefetch_tensor_map(g.q);
            tkjit::prefetch_tensor_map(g.k);
            tkjit::prefetch_tensor_map(g.v);
        }
        tkjit::mbarrier_init(&shared->q_full, 1);
        for (int stage = 0; stage < kStages; ++stage) {
            tkjit::mbarrier_init(&shared->k_full[stage], 1);
            tkjit::mbarrier_init(&shared->v_full[stage], 1);
            tkjit::mbarrier_init(&shared->k_empty[stage], kConsumers * kWarpgroup / 32);
            tkjit::mbarrier_init(&shared->v_empty[stage], kConsumers * kWarpgroup / 32);
        }
        if (is_packed) tkjit::mbarrier_init(&shared->incomplete_v, 1);
        tkjit::fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x < kWarpgroup) {
        tkjit::decrease_registers<24>();
        const int complete_values = (scores.keys - tiles.first_key) / kKeys<D>;  // tiles; the queries may see fewer
        if (threadIdx.x == 0) produce(*shared, g, block, tiles, complete_values);
        if constexpr (is_packed)
            if (threadIdx.x < 32 && complete_values < tiles.count) load_incomplete_values(*shared, g, block, tiles);
    } else {
        tkjit::increase_registers<240>();
        consume(*shared, g, block, tiles, scores);
    }
}
