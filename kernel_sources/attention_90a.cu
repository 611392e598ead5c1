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

#include "attention_softmax.cuh"

constexpr int kWarpgroup = 128, kConsumers = 2, kStages = 2;
constexpr int kQueries = 64, kCols = 64;  // of a warpgroup; of a box, whose rows have 128 bytes

template <int D>
constexpr int kKeys = D > 128 ? 64 : 128;  // of a tile

template <typename T, int D>
struct Problem {
    tkjit::tiled_batch<T, kQueries, kCols> q;
    tkjit::tiled_batch<T, kKeys<D>, kCols> k, v;
    bool causal;
    int window;
    float softcap;
    tkjit::optional<float> scale;
    tkjit::tiled_batch<T, kQueries, kCols> o;
    tkjit::gl<float, 1> lse;
};

template <typename T, int D>
struct Shared {
    static constexpr int boxes = D / kCols;
    using KeyTile = T[boxes][kKeys<D> * kCols];
    using QueryTile = T[boxes][kQueries * kCols];
    alignas(1024) KeyTile k[kStages], v[kStages];
    QueryTile q[kConsumers];  // then the output
    uint64_t q_full, k_full[kStages], k_empty[kStages], v_full[kStages], v_empty[kStages];
};

template <typename T, int D>
struct Launch {
    static constexpr int threads = kWarpgroup * (1 + kConsumers), queries = kQueries * kConsumers;  // of a block
    static constexpr size_t shared_bytes = sizeof(Shared<T, D>);
};

template <typename T, int D>
__device__ void produce(Shared<T, D>& shared, const Problem<T, D>& g, const AttentionWork& work) {
    constexpr int boxes = Shared<T, D>::boxes;
    tkjit::mbarrier_arrive_expect_bytes(&shared.q_full, sizeof(shared.q));
    for (int consumer = 0; consumer < kConsumers; ++consumer)
        for (int box = 0; box < boxes; ++box)
            tkjit::tensor_load(shared.q[consumer][box], g.q, work.head, work.first_query + consumer * kQueries, box * kCols,
                               &shared.q_full);
    const auto load = [&](auto& tile, const auto& from, int step, uint64_t* full, uint64_t* empty) {
        tkjit::mbarrier_wait(empty, step / kStages % 2 ^ 1);  // the first round does not wait
        tkjit::mbarrier_arrive_expect_bytes(full, sizeof(tile));
        for (int box = 0; box < boxes; ++box)
            tkjit::tensor_load(tile[box], from, work.key_head, work.first_key + step * kKeys<D>, box * kCols, full);
    };
    for (int step = 0; step < work.tiles; ++step) {
        const int at = step % kStages;
        load(shared.k[at], g.k, step, &shared.k_full[at], &shared.k_empty[at]);
        load(shared.v[at], g.v, step, &shared.v_full[at], &shared.v_empty[at]);
    }
}

template <typename T, int D>
__device__ void consume(Shared<T, D>& shared, const Problem<T, D>& g, const AttentionWork& work, const Scores& scores) {
    constexpr int keys = kKeys<D>, boxes = Shared<T, D>::boxes, depth = tkjit::wgmma_depth<T>;
    const int consumer = threadIdx.x / kWarpgroup - 1, lane = threadIdx.x % 32;
    const int first_query = work.first_query + consumer * kQueries;
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
        softmax.add(products, scores, first_query, kQueries, first_query + tkjit::wgmma_row(0), work.first_key + step * keys);
    };

    tkjit::mbarrier_wait(&shared.q_full, 0);
    if (work.tiles > 0) {
        start_scores(0);
        tkjit::wgmma_wait<0>(products);
        release(&shared.k_empty[0]);
        exponentiate(0);
        pack_all<T>(shares, products);
    }
    for (int step = 1; step < work.tiles; ++step) {
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
    if (work.tiles > 0) {
        start_output(work.tiles - 1);
        tkjit::wgmma_wait<0>(output);
    }

    softmax.finish();
    for (int row = 0; row < 2; ++row) {
        const int query = first_query + tkjit::wgmma_row(2 * row);
        if (lane % 4 == 0 && query < scores.queries)
            g.lse.raw_ptr[size_t(work.head) * scores.queries + query] = softmax.log_sum_exp(row, scores);
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
    if (threadIdx.x % kWarpgroup != 0) return;
    for (int box = 0; box < boxes; ++box) tkjit::tensor_store(g.o, work.head, first_query, box * kCols, q[box]);
    tkjit::bulk_store_commit();
    tkjit::bulk_store_wait_read<0>();
}

template <typename T, int D>
__global__ void __launch_bounds__(Launch<T, D>::threads, 1) attention(const __grid_constant__ Problem<T, D> g) {
    using Block = Shared<T, D>;
    TKJIT_DYNAMIC_SHARED(Block, shared);
    const Scores scores(g.q.rows(), g.k.rows(), g.causal, g.window, g.softcap, g.scale.value_or(rsqrtf(D)));
    const AttentionWork work(scores, g.q.extents[1], g.k.extents[1], Launch<T, D>::queries, kKeys<D>);

    if (threadIdx.x == 0) {
        if (work.tiles > 0) {
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
        tkjit::fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x < kWarpgroup) {
        tkjit::decrease_registers<24>();
        if (threadIdx.x == 0) produce(*shared, g, work);
    } else {
        tkjit::increase_registers<240>();
        consume(*shared, g, work, scores);
    }
}
