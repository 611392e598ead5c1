// The gradients of attention with `mma.sync`. With p = exp(score - lse) and the gradient of a score
//
//   d = p * (grad_o . v - inner), where inner = sum(grad_o * o) - grad_lse,
//
// they are
//
//   grad_q = scale * sum over keys of d k
//   grad_k = scale * sum over queries of d q
//   grad_v = sum over queries of p grad_o
//
// A block owns some rows, either queries or keys, and adds up their gradients over tiles of the others. Each score is
// therefore computed twice, but no sum needs atomics, so its order is fixed.
//
// Source of the method: Dao, "FlashAttention-2", 2023.
#include <tkjit/cp_async.cuh>
#include <tkjit/gl.h>
#include <tkjit/ldmatrix.cuh>
#include <tkjit/shared_memory.cuh>

#include "attention_product.cuh"
#include "attention_rows.cuh"
#include "attention_softmax.cuh"

constexpr int kWarps = 4, kThreads = 32 * kWarps;
constexpr int kOthers = 32;  // rows of a tile
constexpr int kDepth = 16;   // of a product of fragments

template <typename T, int D>
struct Problem {
    tkjit::gl<T> grad_o;
    tkjit::gl<float, 1> inner;
    tkjit::gl<T> q, k, v;
    tkjit::gl<float, 1> lse;
    bool causal;
    int window;
    float softcap;
    tkjit::optional<float> scale;
    tkjit::gl<T> grad_q, grad_k, grad_v;
};

/// The part of the gradients that a block computes. Its sums take at most 128 registers of a thread; with the products of a
/// tile and the addresses, nothing spills.
template <int D, bool OfKeys>
struct Part {
    static constexpr int gradients = OfKeys ? 2 : 1;
    static constexpr int cols = OfKeys && D > 128 ? 128 : D;
    static constexpr int fragments = gradients * cols > 128 ? 1 : 2;  // of 16 rows, for each warp
    static constexpr int rows = kWarps * 16 * fragments;

    static __host__ __device__ int blocks_of_head(int length) { return (length + rows - 1) / rows * (D / cols); }
};

/// The terms of a query. lse is in base 2.
struct Term {
    float lse, inner;
};

/// One tile is in use while the next arrives.
template <typename T, int D>
struct Shared {
    static constexpr int rows = Part<D, false>::rows;  // at least as many as of keys
    T own[2][rows * D], others[2][2][kOthers * D];
    Term own_terms[rows], other_terms[2][kOthers];
};

template <typename T, int D>
struct Launch {
    static constexpr int threads = kThreads;
    static constexpr size_t shared_bytes = sizeof(Shared<T, D>);

    static int blocks(int batches, int heads, int key_heads, int queries, int keys) {
        const int of_keys = Part<D, true>::blocks_of_head(keys), of_queries = Part<D, false>::blocks_of_head(queries);
        return batches * (key_heads * of_keys + heads * of_queries);
    }
    static size_t packed_blocks(size_t sequences, int heads, int key_heads, size_t queries, size_t keys) {
        return packed_blocks_of<true>(sequences, key_heads, keys) + packed_blocks_of<false>(sequences, heads, queries);
    }
    template <bool OfKeys>
    static __host__ __device__ size_t packed_blocks_of(size_t sequences, int heads, size_t total) {
        using Shape = Part<D, OfKeys>;
        return packed_tiles(total, sequences, Shape::rows) * heads * (D / Shape::cols);
    }
};

/// The queries and keys of a block's heads, and the first row and column of its gradients.
template <class Rows>
struct Place {
    Rows queries, keys;
    int head, first_row, first_col;
};

template <int D, bool OfKeys>
__device__ Place<DenseRows<D>> dense_place(int queries, int keys, int number) {
    using Shape = Part<D, OfKeys>;
    const int blocks = Shape::blocks_of_head(OfKeys ? keys : queries), parts = D / Shape::cols, block = number % blocks;
    // the first keys are seen by most queries and the last queries see most keys, so they start first
    const int tile = OfKeys ? block / parts : blocks / parts - 1 - block / parts;
    return {{queries}, {keys}, number / blocks, tile * Shape::rows, block % parts * Shape::cols};
}

/// The work of a block. Its own rows are of k and v, or of q and grad_o, and the others are of the other two matrices.
/// `group` is the number of heads of q that share a head of k.
template <typename T, int D, bool OfKeys, class Globals, class Rows>
class Gradient {
public:
    __device__ Gradient(const Globals& g, Shared<T, D>& shared, const Place<Rows>& place, int group)
        : g_(g),
          shared_(shared),
          scores_(place.queries.length, place.keys.length, g.causal, g.window, g.softcap, g.scale.value_or(rsqrtf(D))),
          own_rows_(OfKeys ? place.keys : place.queries),
          other_rows_(OfKeys ? place.queries : place.keys),
          head_(place.head),
          first_head_(OfKeys ? head_ * group : head_ / group),
          first_row_(place.first_row),
          first_col_(place.first_col) {
        const int last_row = min(first_row_ + Shape::rows, own_rows_.length) - 1;
        if (OfKeys) {
            others_ = scores_.queries_of(first_row_, last_row);
        } else {
            others_ = {scores_.seen_by(first_row_).first, scores_.seen_by(last_row).end};
        }
        tiles_ = max(0, (others_.end - others_.first + kOthers - 1) / kOthers);
        steps_ = OfKeys ? group * tiles_ : tiles_;
    }

    __device__ void run() {
        if (steps_ > 0) start();
        for (int step = 0; step < steps_; ++step) {
            const int stage = step % 2;
            const bool is_last = step + 1 == steps_, has_term = OfKeys && !is_last && threadIdx.x < kOthers;
            tkjit::cp_async_wait_all();
            __syncthreads();
            if (!is_last) copy_others(step + 1, 1 - stage);
            const Term next = has_term ? term_of_step(step + 1) : Term{};
            add_tile(first_of(step), stage);
            if (has_term) shared_.other_terms[1 - stage][threadIdx.x] = next;
        }
        write(sums_[0], OfKeys ? g_.grad_k.raw_ptr : g_.grad_q.raw_ptr, g_.scale.value_or(rsqrtf(D)));
        if constexpr (OfKeys) write(sums_[1], g_.grad_v.raw_ptr, 1.f);
    }

private:
    using Shape = Part<D, OfKeys>;
    static constexpr int fragments = Shape::fragments;
    using Products = float[fragments][kOthers / 2];
    using Sums = float[fragments][Shape::cols / 2];

    /// The position of eight adjacent elements in a matrix of shared memory. Those of eight rows are in different banks.
    static __device__ int at(int row, int col) { return row * D + (col ^ row % 8 * 8); }

    /// The position whose address the thread passes to ldmatrix, for the 16 x 16 fragment that begins at `row` and `col`. The
    /// offsets differ only in the xor with 16, 32 or 48, so few registers hold all of them.
    __device__ int own_part(int row, int col) const { return row * D + col / 64 * 64 + (lane_part_ ^ col % 64); }

    __device__ int first_of(int step) const { return others_.first + step % tiles_ * kOthers; }
    __device__ int other_head(int step) const { return first_head_ + step / tiles_; }

    /// Copies `Count` rows of a head's matrix. Those past its end become zero.
    template <int Count>
    static __device__ void copy_rows(T* to, const T* matrices, int head, const Rows& all, int first) {
        constexpr int vector = 16 / sizeof(T), vectors = D / vector;
        const T* const from = matrices + all.offset(head) + size_t(first) * all.stride;
        const int rows = all.length - first;
#pragma unroll 1  // the addresses of several rows would take too many registers
        for (int i = threadIdx.x; i < Count * vectors; i += kThreads) {
            const int row = i / vectors, col = i % vectors * vector;
            const T* const source = from + (row < rows ? row * all.stride + col : 0);
            tkjit::cp_async_16_zero_fill(to + at(row, col), source, row < rows ? 16 : 0);
        }
    }

    __device__ void copy_others(int step, int stage) const {
        const int head = other_head(step), first = first_of(step);
        copy_rows<kOthers>(shared_.others[stage][0], OfKeys ? g_.q.raw_ptr : g_.k.raw_ptr, head, other_rows_, first);
        copy_rows<kOthers>(shared_.others[stage][1], OfKeys ? g_.grad_o.raw_ptr : g_.v.raw_ptr, head, other_rows_, first);
    }

    /// A query that sees no key, or is past the end, gets shares of 0 from an infinite lse.
    __device__ Term term_of(int head, int query) const {
        const size_t number = (OfKeys ? other_rows_ : own_rows_).number(head) + query;
        const float lse = query < scores_.queries ? g_.lse.raw_ptr[number] : -INFINITY;
        return lse == -INFINITY ? Term{INFINITY, 0.f} : Term{lse * kLog2E, g_.inner.raw_ptr[number]};
    }
    __device__ Term term_of_step(int step) const { return term_of(other_head(step), first_of(step) + threadIdx.x); }

    __device__ void start() const {
        copy_rows<Shape::rows>(shared_.own[0], OfKeys ? g_.k.raw_ptr : g_.q.raw_ptr, head_, own_rows_, first_row_);
        copy_rows<Shape::rows>(shared_.own[1], OfKeys ? g_.v.raw_ptr : g_.grad_o.raw_ptr, head_, own_rows_, first_row_);
        copy_others(0, 0);
        if constexpr (OfKeys) {
            if (threadIdx.x < kOthers) shared_.other_terms[0][threadIdx.x] = term_of_step(0);
        } else {
            if (threadIdx.x < Shape::rows) shared_.own_terms[threadIdx.x] = term_of(head_, first_row_ + threadIdx.x);
        }
    }

    /// Adds the part of a tile to the gradients.
    __device__ void add_tile(int first_other, int stage) {
        const T(&others)[2][kOthers * D] = shared_.others[stage];
        Products shares = {}, grads = {};
        multiply(shares, shared_.own[0], others[0]);
        multiply(grads, shared_.own[1], others[1]);
        differentiate(shares, grads, first_other, stage);
        if constexpr (OfKeys) add_gradient(sums_[1], shares, others[1]);
        add_gradient(sums_[0], grads, others[0]);
    }

    /// Adds the products of the warp's own rows and the rows of a tile.
    __device__ void multiply(Products& products, const T* own, const T* others) const {
#pragma unroll
        for (int k = 0; k < D; k += kDepth) {
            uint32_t a[fragments][4], b[4];
#pragma unroll
            for (int i = 0; i < fragments; ++i)
                tkjit::ldmatrix_x4(a[i], own + own_part(warp_row_ + 16 * i, k));
#pragma unroll
            for (int other = 0; other < kOthers; other += 16) {
                tkjit::ldmatrix_x4(b, others + own_part(other, k));
                const uint32_t of_rows[4] = {b[0], b[2], b[1], b[3]};  // the first eight rows, then the others
#pragma unroll
                for (int i = 0; i < fragments; ++i) add_product<T>(products[i] + other / 2, a[i], of_rows);
            }
        }
    }

    /// Calls f(fragment, i, row, other) for the thread's elements of the products: `row` is relative to the block's first
    /// row, and `other` to the tile's.
    template <class F>
    __device__ void each_product(F f) const {
#pragma unroll
        for (int fragment = 0; fragment < fragments; ++fragment)
#pragma unroll
            for (int i = 0; i < kOthers / 2; ++i)
                f(fragment, i, warp_row_ + 16 * fragment + lane_ / 4 + 8 * (i / 2 % 2), i / 4 * 8 + lane_ % 4 * 2 + i % 2);
    }

    /// Replaces the products of queries and keys by the shares, and those of grad_o and v by the gradients of the scores.
    __device__ void differentiate(Products& shares, Products& grads, int first_other, int stage) const {
        const Term* const terms = OfKeys ? shared_.other_terms[stage] : shared_.own_terms;
        each_product([&](int n, int i, int row, int other) { grads[n][i] -= terms[OfKeys ? other : row].inner; });
        if (scores_.is_capped)
            each_product([&](int n, int i, int, int) {
                shares[n][i] = tanhf(shares[n][i] * scores_.cap_factor);
                grads[n][i] *= 1.f - shares[n][i] * shares[n][i];
            });
        const int own = first_row_ + warp_row_;
        if (!(OfKeys ? scores_.see_all(first_other, kOthers, own, 16 * fragments)
                     : scores_.see_all(own, 16 * fragments, first_other, kOthers)))
            each_product([&](int n, int i, int row, int other) {
                const int query = OfKeys ? first_other + other : first_row_ + row;
                const int key = OfKeys ? first_row_ + row : first_other + other;
                const Seen seen = scores_.seen_by(query);
                if (key < seen.first || key >= seen.end) shares[n][i] = -INFINITY;
            });
        each_product([&](int n, int i, int row, int other) {
            shares[n][i] = exp2_of(shares[n][i] * scores_.factor - terms[OfKeys ? other : row].lse);
            grads[n][i] *= shares[n][i];
        });
    }

    /// Adds the products of the warp's weights and the columns of a tile.
    __device__ void add_gradient(Sums& sums, const Products& weights, const T* others) const {
        uint32_t a[fragments][kOthers / kDepth][4];
#pragma unroll
        for (int i = 0; i < fragments; ++i) pack_all<T>(a[i], weights[i]);
#pragma unroll
        for (int other = 0; other < kOthers; other += kDepth) {
#pragma unroll
            for (int col = 0; col < Shape::cols; col += 16) {
                uint32_t b[4];
                tkjit::ldmatrix_x4_trans(b, others + first_col_ + own_part(other, col));
#pragma unroll
                for (int i = 0; i < fragments; ++i) add_product<T>(sums[i] + col / 2, a[i][other / kDepth], b);
            }
        }
    }

    __device__ void write(const Sums& sums, T* matrices, float factor) const {
        T* const to = matrices + own_rows_.offset(head_) + size_t(first_row_) * own_rows_.stride + first_col_ + lane_ % 4 * 2;
#pragma unroll
        for (int fragment = 0; fragment < fragments; ++fragment)
#pragma unroll
            for (int i = 0; i < Shape::cols / 2; i += 2) {
                const int row = warp_row_ + 16 * fragment + lane_ / 4 + 8 * (i / 2 % 2);
                if (first_row_ + row < own_rows_.length)
                    *reinterpret_cast<uint32_t*>(to + row * own_rows_.stride + i / 4 * 8) =
                        pack(T(), sums[fragment][i] * factor, sums[fragment][i + 1] * factor);
            }
    }

    const Globals& g_;
    Shared<T, D>& shared_;
    const Scores scores_;
    const Rows own_rows_, other_rows_;
    const int head_, first_head_, first_row_, first_col_;
    const int lane_ = threadIdx.x % 32, warp_row_ = threadIdx.x / 32 * 16 * fragments;
    const int lane_part_ = at(lane_ % 16, lane_ / 16 * 8);
    int tiles_, steps_;
    Seen others_;
    Sums sums_[Shape::gradients] = {};
};

template <typename T, int D>
__global__ void __launch_bounds__(kThreads) attention_gradient(const __grid_constant__ Problem<T, D> g) {
    using Block = Shared<T, D>;
    TKJIT_DYNAMIC_SHARED(Block, shared);
    const int of_keys = g.k.batch() * g.k.depth() * Part<D, true>::blocks_of_head(g.k.rows()), block = blockIdx.x;
    const int group = g.q.depth() / g.k.depth();
    if (block < of_keys) {
        const auto place = dense_place<D, true>(g.q.rows(), g.k.rows(), block);
        Gradient<T, D, true, Problem<T, D>, DenseRows<D>>(g, *shared, place, group).run();
    } else {
        const auto place = dense_place<D, false>(g.q.rows(), g.k.rows(), block - of_keys);
        Gradient<T, D, false, Problem<T, D>, DenseRows<D>>(g, *shared, place, group).run();
    }
}

template <typename T, int D, bool OfKeys, class Globals>
__device__ void add_packed_gradients(const Globals& g, Shared<T, D>& shared, const Sequences& of_queries,
                                     const Sequences& of_keys, int number) {
    using Shape = Part<D, OfKeys>;
    constexpr int parts = D / Shape::cols;
    const Sequences &own = OfKeys ? of_keys : of_queries, &other = OfKeys ? of_queries : of_keys;
    const PackedTile tile(own, Shape::rows, number / parts, !OfKeys);  // in the order of dense_place
    if (tile.is_idle) return;
    const auto own_rows = own.rows_of<D>(tile.sequence);
    const auto other_rows = other.has(tile.sequence) ? other.rows_of<D>(tile.sequence) : PackedRows<D>{};
    const Place<PackedRows<D>> place{OfKeys ? other_rows : own_rows, OfKeys ? own_rows : other_rows, tile.head, tile.first_row,
                                     number % parts * Shape::cols};
    Gradient<T, D, OfKeys, Globals, PackedRows<D>>(g, shared, place, of_queries.heads / of_keys.heads).run();
}

/// For packed tensors. Only their spec has tkjit's own struct, so this is a template of it.
template <typename T, int D, class Globals>
__global__ void __launch_bounds__(kThreads) packed_attention_gradient(const __grid_constant__ Globals g) {
    using Block = Shared<T, D>;
    TKJIT_DYNAMIC_SHARED(Block, shared);
    const int sequences = g.cu_seqlens_q.cols() - 1;
    const Sequences of_queries{g.cu_seqlens_q.raw_ptr, sequences, g.q.rows(), g.q.depth()};
    const Sequences of_keys{g.cu_seqlens_k.raw_ptr, sequences, g.k.rows(), g.k.depth()};
    const int key_blocks = Launch<T, D>::template packed_blocks_of<true>(sequences, of_keys.heads, of_keys.total);
    const int block = blockIdx.x;
    if (block < key_blocks) {
        add_packed_gradients<T, D, true>(g, *shared, of_queries, of_keys, block);
    } else {
        add_packed_gradients<T, D, false>(g, *shared, of_queries, of_keys, block - key_blocks);
    }
}
