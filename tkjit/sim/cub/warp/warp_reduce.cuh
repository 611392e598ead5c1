// cub::WarpReduce: reduces a logical warp's values; the result is in its first lane.
#pragma once

#include "../detail/block.cuh"
#include "../thread/thread_operators.cuh"

namespace cub {

template <class T, int LogicalWarpThreads = 32>
class WarpReduce {
  public:
    struct TempStorage : Uninitialized<detail::NoStorage> {};

    explicit WarpReduce(TempStorage&, detail::Site site = detail::Site::here()) : warp(site) {}

    T Sum(T input) { return Reduce(input, cub::Sum()); }
    T Sum(T input, int valid_items) { return Reduce(input, cub::Sum(), valid_items); }
    T Max(T input) { return Reduce(input, cub::Max()); }
    T Max(T input, int valid_items) { return Reduce(input, cub::Max(), valid_items); }
    T Min(T input) { return Reduce(input, cub::Min()); }
    T Min(T input, int valid_items) { return Reduce(input, cub::Min(), valid_items); }

    template <class ReductionOp>
    T Reduce(T input, ReductionOp op) {
        return warp.reduce(input, op, warp.size());
    }
    template <class ReductionOp>
    T Reduce(T input, ReductionOp op, int valid_items) {
        return warp.reduce(input, op, valid_items < warp.size() ? valid_items : warp.size());
    }

    template <class FlagT>
    T HeadSegmentedSum(T input, FlagT head_flag) {
        return HeadSegmentedReduce(input, head_flag, cub::Sum());
    }
    template <class FlagT>
    T TailSegmentedSum(T input, FlagT tail_flag) {
        return TailSegmentedReduce(input, tail_flag, cub::Sum());
    }
    /// Each lane gets the sum up to the end of its segment. A segment begins at each set flag.
    template <class ReductionOp, class FlagT>
    T HeadSegmentedReduce(T input, FlagT head_flag, ReductionOp op) {
        const unsigned later_heads = heads(head_flag) & ~((2u << warp.rank) - 1);
        return warp.reduce(input, op, later_heads ? __ffs(static_cast<int>(later_heads)) - 1 : warp.size());
    }
    /// Each lane gets the sum up to the end of its segment. A segment ends at each set flag.
    template <class ReductionOp, class FlagT>
    T TailSegmentedReduce(T input, FlagT tail_flag, ReductionOp op) {
        const unsigned tails = heads(tail_flag) & ~((1u << warp.rank) - 1);
        return warp.reduce(input, op, tails ? __ffs(static_cast<int>(tails)) : warp.size());
    }

  private:
    /// The set flags as a mask, by rank.
    template <class FlagT>
    unsigned heads(FlagT flag) {
        return __ballot_sync(warp.mask, static_cast<bool>(flag), warp.site) >> warp.first;
    }

    const detail::LogicalWarp<LogicalWarpThreads> warp;
};

}  // namespace cub
