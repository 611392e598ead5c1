// Attention with `mma.sync`. A block computes 64 queries of one head, 16 in each warp. Its keys and values come in tiles of
// 64, through shared memory.
#include <tkjit/gl.h>
#include <tkjit/ldmatrix.cuh>
#include <tkjit/shared_memory.cuh>

#include "attention_product.cuh"
#include "attention_rows.cuh"
#include "attention_softmax.cuh"

constexpr int kThreads = 128, kQueries = 64, kKeys = 64;
constexpr int kDepth = 16;  // of a product of fragments

template <typename T, int D, bool is_packed>
struct Problem {
    tkjit::gl<T> q, k, v;
    bool causal;
    int window;
    float softcap;
    tkjit::optional<float> scale;
    tkjit::gl<T> o;
    tkjit::gl<float, 1> lse;

    __device__ DenseBlock<D> block() const { return {q.rows(), k.rows(), q.depth(), k.depth(), kQueries}; }
};

template <typename T, int D>
struct Problem<T, D, true> {
    tkjit::gl<T, 1> q, k, v;  // depth() is the number of rows, and rows() that of heads
    tkjit::gl<int, 1, 1, 1> cu_seqlens_q, cu_seqlens_k;
    bool causal;
    int window;
    float softcap;
    tkjit::optional<float> scale;
    tkjit::gl<T, 1> o;
    tkjit::gl<float, 1, 1> lse;

    __device__ PackedBlock<D> block() const {
        const int sequences = cu_seqlens_q.cols() - 1;
        const Sequences of_queries{cu_seqlens_q.raw_ptr, sequences, q.rows(), q.depth()};
        const Sequences of_keys{cu_seqlens_k.raw_ptr, sequences, k.rows(), k.depth()};
        return {of_queries, of_keys, kQueries};
    }
};

template <typename T, int D>
struct Shared {
    static constexpr int stride = D + 8;  // staggers the rows over the banks
    T q[kQueries * stride], k[kKeys * stride], v[kKeys * stride];
};

template <typename T, int D>
struct Launch {
    static constexpr int threads = kThreads, queries = kQueries;  // of a block
    static constexpr size_t shared_bytes = sizeof(Shared<T, D>);
};

/// Copies 64 rows of a head's matrix from `first` on. Rows past its end are zero.
template <int D, class T, class Rows>
__device__ void copy_rows(T* to, const T* matrix, const Rows& rows, int first) {
    constexpr int vector = 16 / sizeof(T), vectors = D / vector;
    for (int i = threadIdx.x; i < 64 * vectors; i += kThreads) {
        const int row = i / vectors, col = i % vectors * vector;
        const uint4 zero{};
        const auto* from = reinterpret_cast<const uint4*>(matrix + size_t(first + row) * rows.stride + col);
        *reinterpret_cast<uint4*>(to + row * Shared<T, D>::stride + col) = first + row < rows.length ? *from : zero;
    }
}

template <typename T, int D, bool is_packed>
__global__ void __launch_bounds__(kThreads) attention(const __grid_constant__ Problem<T, D, is_packed> g) {
    using Block = Shared<T, D>;
    TKJIT_DYNAMIC_SHARED(Block, shared);
    constexpr int stride = Block::stride;
    const auto block = g.block();
    if (block.is_idle) return;
    const Scores scores(block.queries.length, block.keys.length, g.causal, g.window, g.softcap, g.scale.value_or(rsqrtf(D)));
    const KeyTiles tiles(scores, block.first_query, kQueries, kKeys);
    const T* const keys = g.k.raw_ptr + block.keys.offset(block.key_head);
    const T* const values = g.v.raw_ptr + block.keys.offset(block.key_head);
    const int lane = threadIdx.x % 32, own_row = threadIdx.x / 32 * 16, query = block.first_query + own_row + lane / 4;

    float output[D / 2] = {};
    OnlineSoftmax softmax;
    copy_rows<D>(shared->q, g.q.raw_ptr + block.queries.offset(block.head), block.queries, block.first_query);
    for (int step = 0; step < tiles.count; ++step) {
        const int first_key = tiles.first_key + step * kKeys;
        __syncthreads();  // the previous tile is not used any more
        copy_rows<D>(shared->k, keys, block.keys, first_key);
        copy_rows<D>(shared->v, values, block.keys, first_key);
        __syncthreads();

        float products[kKeys / 2] = {};
#pragma unroll
        for (int k = 0; k < D; k += kDepth) {
            uint32_t a[4], b[4];
            tkjit::ldmatrix_x4(a, shared->q + (own_row + lane % 16) * stride + k + lane / 16 * 8);
#pragma unroll
            for (int key = 0; key < kKeys; key += 16) {
                tkjit::ldmatrix_x4(b, shared->k + (key + lane / 16 * 8 + lane % 8) * stride + k + lane / 8 % 2 * 8);
                add_product<T>(products + key / 2, a, b);
            }
        }
        softmax.add(products, scores, block.first_query + own_row, 16, query, first_key);
#pragma unroll
        for (int i = 0; i < D / 2; ++i) output[i] *= softmax.shrinking[i / 2 % 2];
        uint32_t shares[kKeys / kDepth][4];
        pack_all<T>(shares, products);
#pragma unroll
        for (int key = 0; key < kKeys; key += kDepth) {
#pragma unroll
            for (int col = 0; col < D; col += 16) {
                uint32_t b[4];
                tkjit::ldmatrix_x4_trans(b, shared->v + (key + lane % 16) * stride + col + lane / 16 * 8);
                add_product<T>(output + col / 2, shares[key / kDepth], b);
            }
        }
    }

    softmax.finish();
#pragma unroll
    for (int row = 0; row < 2; ++row) {
        const int own = query + 8 * row;
        if (own >= scores.queries) continue;
        if (lane % 4 == 0) g.lse.raw_ptr[block.queries.number(block.head) + own] = softmax.log_sum_exp(row, scores);
        const float inverse = softmax.inverse(row);
        T* const to = g.o.raw_ptr + block.queries.offset(block.head) + size_t(own) * block.queries.stride;
#pragma unroll
        for (int i = 2 * row; i < D / 2; i += 4)
            *reinterpret_cast<uint32_t*>(to + i / 4 * 8 + lane % 4 * 2) =
                pack(T(), output[i] * inverse, output[i + 1] * inverse);
    }
}
