// Linear attention in chunks of 64 elements, with `mma.sync`. A block computes 64 columns of one head's result, and carries
// the state, a sum of products of keys and values, from chunk to chunk. Each of its four warps computes 16 rows of a chunk's
// result, and holds a quarter of the state's rows in float registers.
//
// Sources: Katharopoulos et al., "Transformers are RNNs", 2020; Sun et al., "Retentive Network", 2023; Yang et al., "Gated
// Linear Attention Transformers with Hardware-Efficient Training", 2024.
#pragma once

#include <tkjit/cp_async.cuh>
#include <tkjit/gl.h>
#include <tkjit/ldmatrix.cuh>
#include <tkjit/shared_memory.cuh>

#include "attention_product.cuh"
#include "exp2.cuh"
#include "pack.cuh"

constexpr int kThreads = 128, kRows = 64, kCols = 64;  // of a chunk, and of a block's part of the values
constexpr int kDepth = 16;                             // of a product of fragments
constexpr int kPadding = 8;                            // staggers the rows over the banks
constexpr int kStride = kCols + kPadding;

/// Copies `rows` rows of a chunk, from `first` on, of a matrix with D columns. The chunk's other rows become zero.
template <int Cols, int D, class T>
__device__ void copy_chunk(T* to, const T* matrix, int first, int rows) {
    constexpr int vector = 16 / sizeof(T), vectors = Cols / vector;
    const T* const from = matrix + size_t(first) * D;
    for (int i = threadIdx.x; i < kRows * vectors; i += kThreads) {
        const int row = i / vectors, col = i % vectors * vector;
        const T* const source = from + (row < rows ? row * D + col : 0);
        tkjit::cp_async_16_zero_fill(to + row * (Cols + kPadding) + col, source, row < rows ? 16 : 0);
    }
}

/// Adds the products of a fragment and the 16 rows at `rows` of a matrix of 64 columns.
template <class T>
__device__ void add_products(float (&sums)[kCols / 2], const uint32_t (&a)[4], const T* rows) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int col = 0; col < kCols; col += 16) {
        uint32_t b[4];
        tkjit::ldmatrix_x4_trans(b, rows + lane % 16 * kStride + col + lane / 16 * 8);
        add_product<T>(sums + col / 2, a, b);
    }
}

/// Loads the transpose of 16 rows and columns of a matrix, as a left operand.
template <class T>
__device__ void load_transposed(uint32_t (&a)[4], const T* matrix, int stride) {
    const int lane = threadIdx.x % 32;
    tkjit::ldmatrix_x4_trans(a, matrix + (lane / 16 * 8 + lane % 8) * stride + lane / 8 % 2 * 8);
}

/// Multiplies such an operand by the weights of the thread's rows: lane % 4 * 2 + 0, 1, 8 and 9.
template <class T>
__device__ void scale_rows(uint32_t (&a)[4], const float (&weights)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const T(&elements)[2] = reinterpret_cast<const T(&)[2]>(a[i]);
        a[i] = pack(T(), weights[i / 2 * 2] * float(elements[0]), weights[i / 2 * 2 + 1] * float(elements[1]));
    }
}

/// One chunk of keys and values is in use while the next arrives.
template <typename T, int D>
struct Shared {
    static constexpr int stride = D + kPadding;
    T q[kRows * stride], k[2][kRows * stride], v[2][kRows * kStride], state[D * kStride];
};

/// The recurrence S[t] = exp(g) S[t - 1] + key_scale k[t] v[t].T with o[t] = q[t] S[t] of one head. In reverse, time runs from
/// the last element to the first. A chunk's own products have the factor score_scale, and those with the state before it the
/// factor state_scale.
template <typename T>
struct Recurrence {
    const T *q, *k, *v;
    T* o;
    int length;
    float rate;  // the logarithm of the decay, in base 2
    float score_scale, state_scale, key_scale;
    bool reverse;
};

template <typename T, int D>
class Head {
public:
    __device__ Head(Shared<T, D>& shared, const Recurrence<T>& work, int first_col)
        : shared_(shared), work_(work), first_col_(first_col), age_(work.reverse ? 0 : 1) {}

    /// Reads the state before the first chunk. In reverse, it does not decay until the second element.
    __device__ void read_state(const float* from, unsigned row_stride, unsigned col_stride) {
        each_of_state([&](float& x, int row, int col) { x = from[row * row_stride + (first_col_ + col) * col_stride]; });
    }

    /// Writes the state after the last chunk. In reverse, it decays once more.
    __device__ void write_state(float* to) {
        const float factor = work_.reverse ? decay_of(age_) : 1.f;
        each_of_state([&](float& x, int row, int col) { to[row * D + first_col_ + col] = factor * x; });
    }

    /// Computes all chunks.
    __device__ void run() {
        if (work_.length == 0) return;
        const int chunks = (work_.length - 1) / kRows + 1;
        copy_keys_and_values(first_of(0, chunks), 0);
        copy_queries(first_of(0, chunks));
        publish_state();
        for (int step = 0; step < chunks; ++step) {
            const int first = first_of(step, chunks), next = first_of(step + 1, chunks), stage = step % 2;
            tkjit::cp_async_wait_all();
            __syncthreads();
            if (step + 1 < chunks) copy_keys_and_values(next, 1 - stage);
            write_outputs(first, shared_.k[stage], shared_.v[stage]);
            __syncthreads();  // q and the published state are not used any more
            if (step + 1 < chunks) copy_queries(next);
            update_state(first, shared_.k[stage], shared_.v[stage]);
            publish_state();
            age_ = 1;
        }
    }

private:
    using Block = Shared<T, D>;
    static constexpr int tiles = D / 64;  // of 16 rows of the state

    __device__ float decay_of(int distance) const { return exp2_of(distance * work_.rate); }
    __device__ int count(int first) const { return min(kRows, work_.length - first); }
    __device__ int first_of(int step, int chunks) const { return (work_.reverse ? chunks - 1 - step : step) * kRows; }

    __device__ void copy_queries(int first) const { copy_chunk<D, D>(shared_.q, work_.q, first, count(first)); }

    __device__ void copy_keys_and_values(int first, int stage) const {
        copy_chunk<D, D>(shared_.k[stage], work_.k, first, count(first));
        copy_chunk<kCols, D>(shared_.v[stage], work_.v + first_col_, first, count(first));
    }

    /// Calls f(x, row, col) for the thread's elements of the state.
    template <class F>
    __device__ void each_of_state(F f) {
#pragma unroll
        for (int tile = 0; tile < tiles; ++tile)
#pragma unroll
            for (int i = 0; i < kCols / 2; ++i)
                f(state_[tile][i], (warp_ * tiles + tile) * 16 + lane_ / 4 + 8 * (i / 2 % 2), i / 4 * 8 + lane_ % 4 * 2 + i % 2);
    }

    /// Rounds the state to T, for the products of the next chunk.
    __device__ void publish_state() {
        each_of_state([&](float& x, int row, int col) {
            if (col % 2 == 0)
                *reinterpret_cast<uint32_t*>(shared_.state + row * kStride + col) = pack(T(), x, (&x)[1]);
        });
    }

    /// Computes the result of a chunk from its own elements and the state before it.
    __device__ void write_outputs(int first, const T* k, const T* v) const {
        const int own_row = warp_ * 16, row = own_row + lane_ / 4, rows = count(first);
        float scores[kRows / 2] = {}, output[kCols / 2] = {};
#pragma unroll
        for (int d = 0; d < D; d += kDepth) {
            uint32_t a[4], b[4];
            tkjit::ldmatrix_x4(a, shared_.q + (own_row + lane_ % 16) * Block::stride + d + lane_ / 16 * 8);
#pragma unroll
            for (int key = 0; key < kRows; key += 16) {
                tkjit::ldmatrix_x4(b, k + (key + lane_ / 16 * 8 + lane_ % 8) * Block::stride + d + lane_ / 8 % 2 * 8);
                add_product<T>(scores + key / 2, a, b);
            }
            add_products(output, a, shared_.state + d * kStride);
        }
#pragma unroll
        for (int i = 0; i < kCols / 2; ++i) {
            const int own = row + 8 * (i / 2 % 2), later = own - (i / 4 * 8 + lane_ % 4 * 2 + i % 2);
            const int distance = work_.reverse ? -later : later, passed = work_.reverse ? rows - 1 - own : own;
            scores[i] = distance >= 0 ? scores[i] * work_.score_scale * decay_of(distance) : 0.f;
            output[i] *= work_.state_scale * decay_of(passed + age_);
        }
        uint32_t shares[kRows / kDepth][4];
        pack_all<T>(shares, scores);
#pragma unroll
        for (int key = 0; key < kRows; key += kDepth)
            add_products(output, shares[key / kDepth], v + key * kStride);
#pragma unroll
        for (int i = 0; i < kCols / 2; i += 2) {
            const int own = row + 8 * (i / 2 % 2);
            T* const to = work_.o + size_t(first + own) * D + first_col_ + i / 4 * 8 + lane_ % 4 * 2;
            if (own < rows) *reinterpret_cast<uint32_t*>(to) = pack(T(), output[i], output[i + 1]);
        }
    }

    /// Moves the state past a chunk.
    __device__ void update_state(int first, const T* k, const T* v) {
        const int rows = count(first);
        const float decay = decay_of(rows - 1 + age_);
        each_of_state([&](float& x, int, int) { x *= decay; });
#pragma unroll
        for (int key = 0; key < kRows; key += kDepth) {
            float weights[4];  // of the thread's keys
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int own = key + lane_ % 4 * 2 + i / 2 * 8 + i % 2;
                weights[i] = work_.key_scale * decay_of(work_.reverse ? own : max(0, rows - 1 - own));
            }
#pragma unroll
            for (int tile = 0; tile < tiles; ++tile) {
                uint32_t a[4];
                load_transposed(a, k + key * Block::stride + (warp_ * tiles + tile) * 16, Block::stride);
                scale_rows<T>(a, weights);
                add_products(state_[tile], a, v + key * kStride);
            }
        }
    }

    Shared<T, D>& shared_;
    const Recurrence<T> work_;
    const int first_col_, warp_ = threadIdx.x / 32, lane_ = threadIdx.x % 32;
    int age_;  // how often the state has decayed when the next chunk's first element reads it
    float state_[tiles][kCols / 2] = {};
};
