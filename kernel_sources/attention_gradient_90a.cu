// The gradients of attention for Hopper, with TMA and wgmma; attention_gradient.cu has the formulas.
//
// As there, some blocks own keys and others own queries, and each adds up the gradients of its rows over tiles of the other
// matrices. This takes seven matrix products instead of five, but no block waits for another, the sums stay in registers, and
// their order is fixed. FlashAttention-3 computes each score once and adds the gradients of queries with atomics. In a fixed
// order, those additions would make blocks wait for each other.
//
// In a block, one warp starts TMA copies of tiles into a ring, and two warpgroups own 64 rows each. A warpgroup's own rows
// are the rows of its products of queries and keys, even if they are keys. The results then have the layout of the left
// operand of the next product, and stay in registers. A warpgroup computes exponentials while the tensor cores work on its
// next product, or for the other warpgroup.
//
// Two gradients of 64 keys of 256 elements do not fit in the registers of a warpgroup. For D = 256, both warpgroups of a
// block for keys therefore own the same 64 keys: the first computes the shares and grad_v, and the second the gradients of
// the scores and grad_k.
//
// Source of the method: Shah et al., "FlashAttention-3", 2024; of the fixed order, Dao, "FlashAttention-2", 2023.
#include <tkjit/bulk_copy.cuh>
#include <tkjit/named_barrier.cuh>
#include <tkjit/registers.cuh>
#include <tkjit/stmatrix.cuh>
#include <tkjit/wgmma.cuh>

#include "attention_gradient_tiles.cuh"

/// The work of a warpgroup that multiplies. Its functions that start products are inlined, because the compiler must see all
/// uses of a sum until it is complete.
template <typename T, int D, bool OfKeys>
class Consumer {
public:
    using Block = Shared<T, D, OfKeys>;

    __device__ Consumer(Block& shared, const Problem<T, D>& g, const Work<D, OfKeys>& work, const Scores& scores)
        : shared_(shared), g_(g), work_(work), scores_(scores), first_other_(work.first_other) {
        if constexpr (!OfKeys)
            for (int i = 0; i < 2; ++i) terms_[i] = term_of(g, scores, work.head, row_of(i));
    }

    /// The gradients of the warpgroup's own rows.
    __device__ void run() {
        float sums[D / 2] = {}, of_values[OfKeys ? D / 2 : 1] = {};
        for (int item = start(); item < items_; item += 2) {
            float scores[others / 2], grads[others / 2];
            Packed shares, weights;
            const auto differentiate = [&](int i, float low, float high) {
                weights[i / 8][i / 2 % 4] = gradients_of_scores(grads, i, low, high, item + 1);
            };
            multiply(scores, 0, item + 1);
            multiply(grads, 1, item);
            tkjit::wgmma_wait<1>(scores);
            if constexpr (OfKeys && others > 64) {  // there are no registers for all factors
                tkjit::wgmma_wait<0>(grads);
                exponentiate(scores, shares, item + 1, differentiate);
                add(of_values, shares, item);
            } else {
                float factors[others / 2];
                exponentiate(scores, shares, item + 1, [&](int i, float low, float high) {
                    factors[i] = low;
                    factors[i + 1] = high;
                });
                if constexpr (OfKeys) {
                    add(of_values, shares, item);
                    tkjit::wgmma_wait<1>(grads);
                } else {
                    tkjit::wgmma_wait<0>(grads);
                    release(item);
                }
#pragma unroll
                for (int i = 0; i < others / 2; i += 2) differentiate(i, factors[i], factors[i + 1]);
            }
            add(sums, weights, item + 1);
            if constexpr (OfKeys) {
                tkjit::wgmma_wait<1>(of_values);
                release(item);
            }
            tkjit::wgmma_wait<0>(sums);
            release(item + 1);
            advance();
        }
        write(sums, 0, OfKeys ? g_.grad_k : g_.grad_q, scale());
        if constexpr (OfKeys) write(of_values, 1, g_.grad_v, 1.f);
        finish_writes();
    }

    /// grad_v. The other warpgroup gets the factors of the gradients of the shares.
    __device__ void run_values() {
        float sums[D / 2] = {};
        Exchange& exchange = shared_.exchange;
        for (int item = start(); item < items_; item += 2) {
            const int at = item / 2 % 2;
            float scores[others / 2], factors[others / 2];
            Packed shares;
            multiply(scores, 0, item + 1);
            tkjit::wgmma_wait<0>(scores);
            exponentiate(scores, shares, item + 1, [&](int i, float low, float high) {
                factors[i] = low;
                factors[i + 1] = high;
            });
            release(item + 1);
            wait_for(item);
            add(sums, shares, item);
            tkjit::mbarrier_wait(&exchange.empty[at], item / 4 % 2 ^ 1);
#pragma unroll
            for (int i = 0; i < others / 2; i += 4)
                exchange.factors[at][i / 4][thread_] = {factors[i], factors[i + 1], factors[i + 2], factors[i + 3]};
            arrive(&exchange.full[at]);
            tkjit::wgmma_wait<0>(sums);
            release(item);
            advance();
        }
        write(sums, 0, g_.grad_v, 1.f);
        finish_writes();
    }

    /// grad_k, with the factors from the other warpgroup.
    __device__ void run_keys() {
        float sums[D / 2] = {};
        Exchange& exchange = shared_.exchange;
        for (int item = start(); item < items_; item += 2) {
            const int at = item / 2 % 2;
            float grads[others / 2];
            Packed weights;
            multiply(grads, 1, item);
            tkjit::wgmma_wait<0>(grads);
            release(item);
            tkjit::mbarrier_wait(&exchange.full[at], item / 4 % 2);
            wait_for(item + 1);
#pragma unroll
            for (int i = 0; i < others / 2; i += 4) {
                const float4 four = exchange.factors[at][i / 4][thread_];
                weights[i / 8][i / 2 % 4] = gradients_of_scores(grads, i, four.x, four.y, item + 1);
                weights[i / 8][i / 2 % 4 + 1] = gradients_of_scores(grads, i + 2, four.z, four.w, item + 1);
            }
            arrive(&exchange.empty[at]);
            add(sums, weights, item + 1);
            tkjit::wgmma_wait<0>(sums);
            release(item + 1);
        }
        write(sums, 1, g_.grad_k, scale());
        finish_writes();
    }

private:
    using Of = Part<D, OfKeys>;
    static constexpr int others = Of::others, depth = tkjit::wgmma_depth<T>;
    using Packed = uint32_t[others / depth][4];  // as the left operand of a product
    using OwnTile = typename Block::template Tile<kSide>;

    /// The two rows of a thread.
    __device__ int row_of(int i) const { return first_row_ + tkjit::wgmma_row(2 * i); }

    __device__ void wait_for(int item) const {
        tkjit::mbarrier_wait(&shared_.full[Of::slot_of(item)], Of::parity_of(item));
    }

    /// Waits for the own rows, and returns the first item.
    __device__ int start() const {
        if (items_ > 0) tkjit::mbarrier_wait(&shared_.own_full, 0);
        return 0;
    }

    /// One arrival for the warp, after the reads and writes of its threads.
    __device__ void arrive(uint64_t* barrier) const {
        __syncwarp();
        if (lane_ == 0) tkjit::mbarrier_arrive(barrier);
    }
    __device__ void release(int item) const { arrive(&shared_.empty[Of::slot_of(item)]); }

    /// The next tile begins here, which may be the first of the next head.
    __device__ void advance() {
        first_other_ += others;
        if (++tile_ < work_.tiles) return;
        tile_ = 0;
        first_other_ = work_.first_other;
    }

    __device__ float scale() const { return g_.scale.value_or(rsqrtf(D)); }

    /// Starts the products of the warpgroup's own rows and those of a tile.
    __device__ __forceinline__ void multiply(float (&products)[others / 2], int matrix, int item) const {
        wait_for(item);
        tkjit::wgmma_fence(products);
#pragma unroll
        for (int box = 0; box < D / kSide; ++box) {
            const auto a = tkjit::wgmma_rows(shared_.own[matrix][owner_][box]);
            const auto b = tkjit::wgmma_rows(shared_.slots[Of::slot_of(item)][box]);
#pragma unroll
            for (int k = 0; k < kSide / depth; ++k)
                tkjit::wgmma<others, T>(products, a.advanced(k), b.advanced(k), box + k > 0);
        }
        tkjit::wgmma_commit();
    }

    /// Two gradients of scores, from those of the shares and their factors.
    __device__ __forceinline__ uint32_t gradients_of_scores(const float (&grads)[others / 2], int i, float low, float high,
                                                            int item) const {
        const float of_row = OfKeys ? 0.f : terms_[i / 2 % 2].y;
        const float2 minus_inner = OfKeys ? shared_.terms[Of::slot_of(item)].minus_inner[i / 4 * 4 + lane_ % 4]
                                          : float2{of_row, of_row};
        return pack(T(), (grads[i] + minus_inner.x) * low, (grads[i + 1] + minus_inner.y) * high);
    }

    /// Makes the shares of the scores. Calls use(i, low, high) with the factors of the gradients of the shares i and i + 1.
    template <class Use>
    __device__ __forceinline__ void exponentiate(float (&scores)[others / 2], Packed& shares, int item, Use use) const {
        if (scores_.is_capped)
#pragma unroll
            for (float& score : scores) score = tanhf(score * scores_.cap_factor);
        if (!(OfKeys ? scores_.see_all(first_other_, others, first_row_, kSide)
                     : scores_.see_all(first_row_, kSide, first_other_, others))) {
            const auto seen_by = [&](int row) { return OfKeys ? scores_.queries_of(row, row) : scores_.seen_by(row); };
            const Seen seen[2] = {seen_by(row_of(0)), seen_by(row_of(1))};
            const float unseen = scores_.is_capped ? -1e18f : -INFINITY;  // the square of the former is finite
#pragma unroll
            for (int i = 0; i < others / 2; ++i) {
                const int row = i / 2 % 2, other = first_other_ + tkjit::wgmma_col(i);
                if (other < seen[row].first || other >= seen[row].end) scores[i] = unseen;
            }
        }
        const auto exponentiate_all = [&](auto is_capped) {
#pragma unroll
            for (int i = 0; i < others / 2; i += 2) {
                const float of_row = OfKeys ? 0.f : terms_[i / 2 % 2].x;
                const float2 lse = OfKeys ? shared_.terms[Of::slot_of(item)].lse[i / 4 * 4 + lane_ % 4]
                                          : float2{of_row, of_row};
                const float share[2] = {exp2_of(scores[i] * scores_.factor - lse.x),
                                        exp2_of(scores[i + 1] * scores_.factor - lse.y)};
                shares[i / 8][i / 2 % 4] = pack(T(), share[0], share[1]);
                const auto factor = [&](int j) {
                    return is_capped ? share[j] * (1.f - scores[i + j] * scores[i + j]) : share[j];
                };
                use(i, factor(0), factor(1));
            }
        };
        if (scores_.is_capped) exponentiate_all(std::true_type());
        else exponentiate_all(std::false_type());
    }

    /// Starts adding the products of the weights and a tile's columns.
    __device__ __forceinline__ void add(float (&sums)[D / 2], const Packed& weights, int item) const {
        const auto& tile = shared_.slots[Of::slot_of(item)];
        const auto columns = tkjit::wgmma_columns(tile, sizeof(tile[0]));
        tkjit::wgmma_fence(sums);
#pragma unroll
        for (int k = 0; k < others / depth; ++k) tkjit::wgmma<D, T, true>(sums, weights[k], columns.advanced(k));
        tkjit::wgmma_commit();
    }

    /// Writes sums by way of the tile of the warpgroup's own rows.
    __device__ __forceinline__ void write(const float (&sums)[D / 2], int matrix, const Boxes<T>& to, float factor) const {
        OwnTile& tile = shared_.own[matrix][owner_];
        sync();  // nothing reads the tile any more
#pragma unroll
        for (int i = 0; i < D / 2; i += 8) {  // 16 columns
            uint32_t pairs[4];
#pragma unroll
            for (int pair = 0; pair < 4; ++pair)
                pairs[pair] = pack(T(), sums[i + 2 * pair] * factor, sums[i + 2 * pair + 1] * factor);
            const int row = thread_ / 32 * 16 + lane_ % 16, col = 2 * i % kSide + lane_ / 16 * 8;
            const auto place = tkjit::place_in_tile<Boxes<T>>(row, col);
            tkjit::stmatrix_x4(reinterpret_cast<char*>(tile[2 * i / kSide]) + place, pairs);
        }
        tkjit::fence_async_proxy();
        sync();
        if (thread_ != 0) return;
        for (int box = 0; box < D / kSide; ++box) tkjit::tensor_store(to, work_.head, first_row_, box * kSide, tile[box]);
        tkjit::bulk_store_commit();
    }
    __device__ void finish_writes() const {
        if (thread_ == 0) tkjit::bulk_store_wait_read<0>();
    }
    __device__ void sync() const { tkjit::named_barrier_sync(1 + consumer_, kWarpgroup); }

    Block& shared_;
    const Problem<T, D>& g_;
    const Work<D, OfKeys>& work_;
    const Scores& scores_;
    const int consumer_ = threadIdx.x / kWarpgroup - 1, owner_ = Of::is_split ? 0 : consumer_;
    const int thread_ = threadIdx.x % kWarpgroup, lane_ = threadIdx.x % 32;
    const int first_row_ = work_.first_row + owner_ * kSide, items_ = 2 * work_.heads * work_.tiles;
    int tile_ = 0, first_other_;
    float2 terms_[2];
};

template <typename T, int D, bool OfKeys>
__device__ void run(const Problem<T, D>& g, int number) {
    using Of = Part<D, OfKeys>;
    using Block = Shared<T, D, OfKeys>;
    TKJIT_DYNAMIC_SHARED(Block, shared);
    const Scores scores(g.q.rows(), g.k.rows(), g.causal, g.window, g.softcap, g.scale.value_or(rsqrtf(D)));
    const Work<D, OfKeys> work(scores, g.q.extents[1] / g.k.extents[1], number);
    constexpr int warps = kWarpgroup / 32;
    if (threadIdx.x == 0) {
        tkjit::mbarrier_init(&shared->own_full, 1);
        for (int slot = 0; slot < Of::slots; ++slot) {
            tkjit::mbarrier_init(&shared->full[slot], 1);
            tkjit::mbarrier_init(&shared->empty[slot], kConsumers * warps);
        }
        if constexpr (Of::is_split)
            for (int i = 0; i < 2; ++i) {
                tkjit::mbarrier_init(&shared->exchange.full[i], warps);
                tkjit::mbarrier_init(&shared->exchange.empty[i], warps);
            }
        tkjit::fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x < kWarpgroup) {
        tkjit::decrease_registers<24>();
        if (threadIdx.x < 32) produce(*shared, g, work, scores);
        return;
    }
    tkjit::increase_registers<240>();
    Consumer<T, D, OfKeys> consumer(*shared, g, work, scores);
    if constexpr (!Of::is_split) consumer.run();
    else if (threadIdx.x < 2 * kWarpgroup) consumer.run_values();
    else consumer.run_keys();
}

template <typename T, int D>
__global__ void __launch_bounds__(kThreads, 1) attention_gradient(const __grid_constant__ Problem<T, D> g) {
    const int of_keys = g.k.matrices() * Part<D, true>::blocks_of_head(g.k.rows()), block = blockIdx.x;
    if (block < of_keys) run<T, D, true>(g, block);
    else run<T, D, false>(g, block - of_keys);
}
