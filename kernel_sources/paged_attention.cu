// Attention of one token in each sequence to the keys in a paged cache. A block computes up to 16 heads of q, which share a
// head of the keys, for a part of the keys. Tiles of 64 keys go through two stages of shared memory, and each warp takes 16
// keys of a tile. The block that finishes a sequence last combines the results of its parts.
//
// Sources: Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention", 2023; Dao et al.,
// "Flash-Decoding for long-context inference", 2023.
#include <tkjit/cp_async.cuh>
#include <tkjit/gl.h>
#include <tkjit/ldmatrix.cuh>
#include <tkjit/reduce.cuh>
#include <tkjit/shared_memory.cuh>

#include "attention_product.cuh"
#include "attention_softmax.cuh"

constexpr int kThreads = 128, kWarps = kThreads / 32, kRows = 16, kKeys = 64;
constexpr int kMostSplits = 396;  // the most that SPLITS in paged_attention.py can be

template <typename T, int D>
struct Shared {
    static constexpr int stride = D + 8;  // staggers the rows over the banks
    struct Stage {
        T k[kKeys * stride], v[kKeys * stride];
    };
    struct Part {  // of a warp's keys
        float output[kRows][D], lse[kRows];
    };
    union {
        Stage stages[2];
        Part parts[kWarps];                        // after all tiles
        float share_of_split[kRows][kMostSplits];  // in the last block
    };
    alignas(16) T q[kRows * stride];
    float share_of_warp[kRows][kWarps];
    bool is_last;
};

/// Combines the log-sum-exps (in base 2) of several parts of a row, with all threads of a warp. Returns that of all parts,
/// and sets each part's share of the result.
template <class LseOf>
__device__ float combine(int parts, float* shares, LseOf lse_of) {
    const int lane = threadIdx.x % 32;
    float largest = -INFINITY, sum = 0.f;
    for (int part = lane; part < parts; part += 32) largest = fmaxf(largest, lse_of(part));
    largest = tkjit::warp_reduce<tkjit::Max>(largest);
    const float base = largest == -INFINITY ? 0.f : largest;
    for (int part = lane; part < parts; part += 32) sum += shares[part] = exp2_of(lse_of(part) - base);
    sum = tkjit::warp_reduce<tkjit::Sum>(sum);
    for (int part = lane; part < parts; part += 32) shares[part] = sum == 0.f ? 0.f : shares[part] / sum;
    return sum == 0.f ? -INFINITY : base + log2f(sum);
}

template <typename T, int D>
__global__ void __launch_bounds__(kThreads) paged_attention(const __grid_constant__ Globals g) {
    using Block = Shared<T, D>;
    TKJIT_DYNAMIC_SHARED(Block, shared);
    constexpr int stride = Block::stride, vector = 16 / sizeof(T), vectors = D / vector;
    const int heads = g.q.rows(), key_heads = g.k_pages.rows(), page_size = g.k_pages.depth();
    const int heads_of_key = heads / key_heads, blocks_of_key = (heads_of_key + kRows - 1) / kRows;
    const int sequence = blockIdx.z, key_head = blockIdx.y / blocks_of_key, split = blockIdx.x, splits = g.splits;
    const int first_row = blockIdx.y % blocks_of_key * kRows, rows = min(kRows, heads_of_key - first_row);
    const size_t first_head = size_t(sequence) * heads + key_head * heads_of_key + first_row;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    // the keys of the sequence, and those of this block
    const int capacity = g.page_table.cols() * page_size;
    const int length = min(g.lengths[sequence], capacity + 1);  // one missing key makes the result NaN
    const int first = g.window > 0 ? max(0, length - g.window) : 0, tiles = (max(0, length - first) + kKeys - 1) / kKeys;
    const int begin = first + int(int64_t(tiles) * split / splits) * kKeys;
    const int end = min(length, first + int(int64_t(tiles) * (split + 1) / splits) * kKeys);

    const int* const pages = g.page_table.raw_ptr + size_t(sequence) * g.page_table.cols();
    constexpr int copies = kKeys * vectors / kThreads, rows_of_warp = 32 / vectors;  // rows that a warp copies at once
    constexpr int64_t kPastEnd = -1, kMissing = -2;
    const auto row_of = [&](int copy, int thread) { return (copy * kThreads + thread) / vectors; };
    /// The offset of a key in the pages, or one of the constants.
    const auto find_key = [&](int key) -> int64_t {
        if (key >= end) return kPastEnd;
        const int page = key < capacity ? pages[key / page_size] : -1;
        if (page < 0 || page >= g.k_pages.batch()) return kMissing;
        return ((int64_t(page) * page_size + key % page_size) * key_heads + key_head) * D;
    };
    const auto copy_tile = [&](auto& stage, int first_key) {
        // each lane finds one of the 16 keys that the warp copies, and half of the lanes find the same ones again
        const int own = lane % 16;
        const int64_t place = find_key(first_key + row_of(own / rows_of_warp, warp * 32) + own % rows_of_warp);
#pragma unroll
        for (int copy = 0; copy < copies; ++copy) {
            const int col = lane % vectors * vector, row = row_of(copy, threadIdx.x);
            const int64_t from = __shfl_sync(0xffffffff, place, copy * rows_of_warp + lane / vectors);
            T *const k = stage.k + row * stride + col, *const v = stage.v + row * stride + col;
            if (from == kMissing) {
                const uint32_t nan = 0x7fff7fff;  // in bfloat16 and in float16
                *reinterpret_cast<uint4*>(k) = *reinterpret_cast<uint4*>(v) = make_uint4(nan, nan, nan, nan);
                continue;
            }
            const uint32_t bytes = from == kPastEnd ? 0 : 16;
            const int64_t offset = bytes ? from + col : 0;
            tkjit::cp_async_16_zero_fill(k, g.k_pages.raw_ptr + offset, bytes);
            tkjit::cp_async_16_zero_fill(v, g.v_pages.raw_ptr + offset, bytes);
        }
        tkjit::cp_async_commit();
    };

    if (begin < end) copy_tile(shared->stages[0], begin);
    for (int i = threadIdx.x; i < kRows * vectors; i += kThreads) {
        const int row = i / vectors, col = i % vectors * vector;
        const auto* from = reinterpret_cast<const uint4*>(g.q.raw_ptr + (first_head + row) * D + col);
        *reinterpret_cast<uint4*>(shared->q + row * stride + col) = row < rows ? *from : uint4{};
    }

    const Scores scores(1, end, false, 0, g.softcap, g.scale.value_or(rsqrtf(D)));  // all rows see the same keys
    float output[D / 2] = {};
    OnlineSoftmax softmax;
    for (int tile = begin, step = 0; tile < end; tile += kKeys, ++step) {
        const auto& stage = shared->stages[step % 2];
        tkjit::cp_async_wait<0>();
        __syncthreads();  // the tile is complete, and the other stage is not used any more
        if (tile + kKeys < end) copy_tile(shared->stages[(step + 1) % 2], tile + kKeys);

        const int own = warp * 16;  // of the tile's keys
        float products[8] = {};
        uint32_t a[4], b[4];
#pragma unroll
        for (int k = 0; k < D; k += 16) {
            tkjit::ldmatrix_x4(a, shared->q + lane % 16 * stride + k + lane / 16 * 8);
            tkjit::ldmatrix_x4(b, stage.k + (own + lane / 16 * 8 + lane % 8) * stride + k + lane / 8 % 2 * 8);
            add_product<T>(products, a, b);
        }
        softmax.add(products, scores, 0, 1, 0, tile + own);
#pragma unroll
        for (int i = 0; i < D / 2; ++i) output[i] *= softmax.shrinking[i / 2 % 2];
        uint32_t shares[1][4];
        pack_all<T>(shares, products);
#pragma unroll
        for (int col = 0; col < D; col += 16) {
            tkjit::ldmatrix_x4_trans(b, stage.v + (own + lane % 16) * stride + col + lane / 16 * 8);
            add_product<T>(output + col / 2, shares[0], b);
        }
    }

    softmax.finish();
    __syncthreads();  // the parts are where the stages were
    auto& part = shared->parts[warp];
    const float inverse[2] = {softmax.inverse(0), softmax.inverse(1)};
#pragma unroll
    for (int i = 0; i < D / 2; ++i)
        part.output[lane / 4 + i / 2 % 2 * 8][i / 4 * 8 + lane % 4 * 2 + i % 2] = output[i] * inverse[i / 2 % 2];
    if (lane % 4 == 0)
        for (int i = 0; i < 2; ++i) part.lse[lane / 4 + 8 * i] = softmax.log_sum_exp(i, scores) * kLog2E;
    __syncthreads();
    for (int row = warp; row < rows; row += kWarps) {
        const float lse = combine(kWarps, shared->share_of_warp[row], [&](int i) { return shared->parts[i].lse[row]; });
        if (lane != 0) continue;
        if (splits > 1) g.part_lse.raw_ptr[(first_head + row) * splits + split] = lse;
        else g.lse[first_head + row] = lse / kLog2E;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < rows * D; i += kThreads) {
        const int row = i / D, col = i % D;
        float o = 0.f;
        for (int part = 0; part < kWarps; ++part) o += shared->parts[part].output[row][col] * shared->share_of_warp[row][part];
        if (splits > 1) g.parts.raw_ptr[((first_head + row) * splits + split) * D + col] = o;
        else g.o.raw_ptr[(first_head + row) * D + col] = T(o);
    }
    if (splits == 1) return;

    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();  // after the barrier, for the writes of all threads
        shared->is_last = atomicAdd(&g.finished[size_t(sequence) * gridDim.y + blockIdx.y], 1) == splits - 1;
        __threadfence();
    }
    __syncthreads();
    if (!shared->is_last) return;
    for (int row = warp; row < rows; row += kWarps) {
        const float* const lses = g.part_lse.raw_ptr + (first_head + row) * splits;
        const float lse = combine(splits, shared->share_of_split[row], [&](int i) { return __ldcg(lses + i); });
        if (lane == 0) g.lse[first_head + row] = lse / kLog2E;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < rows * D / 4; i += kThreads) {
        const int row = i / (D / 4), col = i % (D / 4) * 4;
        const float* const parts = g.parts.raw_ptr + (first_head + row) * splits * D + col;
        float4 o{};
#pragma unroll 8
        for (int part = 0; part < splits; ++part) {
            const float4 own = __ldcg(reinterpret_cast<const float4*>(parts + size_t(part) * D));
            const float share = shared->share_of_split[row][part];
            o.x += own.x * share, o.y += own.y * share, o.z += own.z * share, o.w += own.w * share;
        }
        auto* const to = reinterpret_cast<uint32_t*>(g.o.raw_ptr + (first_head + row) * D + col);
        to[0] = pack(T(), o.x, o.y), to[1] = pack(T(), o.z, o.w);
    }
}
