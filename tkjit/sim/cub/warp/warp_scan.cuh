// cub::WarpScan: prefix sums of a logical warp's values.
#pragma once

#include "../detail/block.cuh"
#include "../thread/thread_operators.cuh"

namespace cub {

template <class T, int LogicalWarpThreads = 32>
class WarpScan {
  public:
    struct TempStorage : Uninitialized<detail::NoStorage> {};

    explicit WarpScan(TempStorage&, detail::Site site = detail::Site::here()) : warp(site) {}

    void InclusiveSum(T input, T& output) { InclusiveScan(input, output, cub::Sum()); }
    void InclusiveSum(T input, T& output, T& aggregate) { InclusiveScan(input, output, cub::Sum(), aggregate); }
    void ExclusiveSum(T input, T& output) { ExclusiveScan(input, output, T{}, cub::Sum()); }
    void ExclusiveSum(T input, T& output, T& aggregate) { ExclusiveScan(input, output, T{}, cub::Sum(), aggregate); }

    template <class ScanOp>
    void InclusiveScan(T input, T& output, ScanOp op) {
        output = warp.inclusive_scan(input, op);
    }
    template <class ScanOp>
    void InclusiveScan(T input, T& output, ScanOp op, T& aggregate) {
        InclusiveScan(input, output, op);
        aggregate = warp.from(output, warp.size() - 1);
    }
    template <class ScanOp>
    void InclusiveScan(T input, T& output, T initial_value, ScanOp op) {
        T aggregate;
        InclusiveScan(input, output, initial_value, op, aggregate);
    }
    template <class ScanOp>
    void InclusiveScan(T input, T& output, T initial_value, ScanOp op, T& aggregate) {
        InclusiveScan(input, output, op, aggregate);
        output = op(initial_value, output);
    }

    /// The first lane's output is undefined.
    template <class ScanOp>
    void ExclusiveScan(T input, T& output, ScanOp op) {
        output = warp.from(warp.inclusive_scan(input, op), warp.rank - 1);
    }
    template <class ScanOp>
    void ExclusiveScan(T input, T& output, ScanOp op, T& aggregate) {
        const T inclusive = warp.inclusive_scan(input, op);
        output = warp.from(inclusive, warp.rank - 1);
        aggregate = warp.from(inclusive, warp.size() - 1);
    }
    template <class ScanOp>
    void ExclusiveScan(T input, T& output, T initial_value, ScanOp op) {
        T inclusive;
        Scan(input, inclusive, output, initial_value, op);
    }
    template <class ScanOp>
    void ExclusiveScan(T input, T& output, T initial_value, ScanOp op, T& aggregate) {
        ExclusiveScan(input, output, op, aggregate);
        output = warp.rank == 0 ? initial_value : op(initial_value, output);
    }

    template <class ScanOp>
    void Scan(T input, T& inclusive, T& exclusive, ScanOp op) {
        inclusive = warp.inclusive_scan(input, op);
        exclusive = warp.from(inclusive, warp.rank - 1);
    }
    template <class ScanOp>
    void Scan(T input, T& inclusive, T& exclusive, T initial_value, ScanOp op) {
        Scan(input, inclusive, exclusive, op);
        inclusive = op(initial_value, inclusive);
        exclusive = warp.rank == 0 ? initial_value : op(initial_value, exclusive);
    }

    T Broadcast(T input, unsigned source_lane) { return warp.from(input, static_cast<int>(source_lane)); }

  private:
    const detail::LogicalWarp<LogicalWarpThreads> warp;
};

}  // namespace cub
