// cub::BlockReduce: reduces a block's values; the result is in its first thread.
#pragma once

#include "../detail/block.cuh"
#include "../detail/thread.cuh"
#include "../thread/thread_operators.cuh"

namespace cub {

enum BlockReduceAlgorithm {
    BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY,
    BLOCK_REDUCE_RAKING,
    BLOCK_REDUCE_WARP_REDUCTIONS,
    BLOCK_REDUCE_WARP_REDUCTIONS_NONDETERMINISTIC,
};

namespace detail {
template <class T, int Warps>
struct WarpSums {
    Uninitialized<T> sums[Warps];
};
}  // namespace detail

/// All algorithms are the same here: each warp reduces, and the first thread adds up the warps' sums.
template <class T, int X, BlockReduceAlgorithm Algorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int Y = 1, int Z = 1>
class BlockReduce : public detail::BlockPrimitive<detail::WarpSums<T, (X * Y * Z + 31) / 32>, X, Y, Z> {
    using Base = detail::BlockPrimitive<detail::WarpSums<T, (X * Y * Z + 31) / 32>, X, Y, Z>;

  public:
    using typename Base::TempStorage;

    explicit BlockReduce(detail::Site site = detail::Site::here()) : Base(site) {}
    explicit BlockReduce(TempStorage& temp, detail::Site site = detail::Site::here()) : Base(temp, site) {}

    template <class ReductionOp>
    T Reduce(T input, ReductionOp op) {
        return Reduce(input, op, Base::block_threads);
    }
    template <int N, class ReductionOp>
    T Reduce(T (&inputs)[N], ReductionOp op) {
        return Reduce(detail::reduce_items(inputs, op), op);
    }
    /// Reduces only the values of the first `num_valid` threads.
    template <class ReductionOp>
    T Reduce(T input, ReductionOp op, int num_valid) {
        const detail::LogicalWarp<32> warp(this->site);
        const int valid = num_valid - (this->rank - warp.rank);
        T sum = warp.reduce(input, op, valid < warp.size() ? valid : warp.size());
        if (warp.rank == 0) this->storage.sums[this->rank / 32].Alias() = sum;
        this->sync();
        if (this->rank == 0) {
            for (int i = 1; i < Base::block_warps && i * 32 < num_valid; i++) sum = op(sum, this->storage.sums[i].Alias());
        }
        return sum;
    }

    T Sum(T input) { return Reduce(input, cub::Sum()); }
    template <int N>
    T Sum(T (&inputs)[N]) {
        return Reduce(inputs, cub::Sum());
    }
    T Sum(T input, int num_valid) { return Reduce(input, cub::Sum(), num_valid); }
};

}  // namespace cub
