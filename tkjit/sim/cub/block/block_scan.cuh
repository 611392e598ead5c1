// cub::BlockScan: prefix sums of a block's values.
#pragma once

#include "../detail/block.cuh"
#include "../detail/thread.cuh"
#include "../thread/thread_operators.cuh"

namespace cub {

enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };

namespace detail {

template <class T, int Warps>
struct ScanStorage {
    Uninitialized<T> sums[Warps];
    Uninitialized<T> prefix;
};

/// The sum of the values of all threads before a thread in its block, and of the whole block. `has_before` is false in
/// the first thread.
template <class T>
struct BlockSums {
    T before, all;
    bool has_before;
};

}  // namespace detail

/// All algorithms are the same here: each warp scans, and each thread adds up the sums of the warps before it.
///
/// In overloads with a callback, the first warp calls it with the block's sum, and the first lane's result is the
/// prefix.
template <class T, int X, BlockScanAlgorithm Algorithm = BLOCK_SCAN_RAKING, int Y = 1, int Z = 1>
class BlockScan : public detail::BlockPrimitive<detail::ScanStorage<T, (X * Y * Z + 31) / 32>, X, Y, Z> {
    using Base = detail::BlockPrimitive<detail::ScanStorage<T, (X * Y * Z + 31) / 32>, X, Y, Z>;

  public:
    using typename Base::TempStorage;

    explicit BlockScan(detail::Site site = detail::Site::here()) : Base(site) {}
    explicit BlockScan(TempStorage& temp, detail::Site site = detail::Site::here()) : Base(temp, site) {}

    // ---- exclusive sums
    void ExclusiveSum(T input, T& output) { ExclusiveScan(input, output, T{}, cub::Sum()); }
    void ExclusiveSum(T input, T& output, T& aggregate) { ExclusiveScan(input, output, T{}, cub::Sum(), aggregate); }
    template <class Callback>
    void ExclusiveSum(T input, T& output, Callback& callback) {
        ExclusiveScan(input, output, cub::Sum(), callback);
    }
    template <int N>
    void ExclusiveSum(T (&input)[N], T (&output)[N]) {
        ExclusiveScan(input, output, T{}, cub::Sum());
    }
    template <int N>
    void ExclusiveSum(T (&input)[N], T (&output)[N], T& aggregate) {
        ExclusiveScan(input, output, T{}, cub::Sum(), aggregate);
    }
    template <int N, class Callback>
    void ExclusiveSum(T (&input)[N], T (&output)[N], Callback& callback) {
        ExclusiveScan(input, output, cub::Sum(), callback);
    }

    // ---- exclusive scans of a value; without an initial value the first thread's output is undefined
    template <class ScanOp>
    void ExclusiveScan(T input, T& output, T initial_value, ScanOp op) {
        T aggregate;
        ExclusiveScan(input, output, initial_value, op, aggregate);
    }
    template <class ScanOp>
    void ExclusiveScan(T input, T& output, T initial_value, ScanOp op, T& aggregate) {
        T items[1] = {input};
        ExclusiveScan(items, items, initial_value, op, aggregate);
        output = items[0];
    }
    template <class ScanOp, class Callback>
    void ExclusiveScan(T input, T& output, ScanOp op, Callback& callback) {
        T items[1] = {input};
        ExclusiveScan(items, items, op, callback);
        output = items[0];
    }
    template <class ScanOp>
    void ExclusiveScan(T input, T& output, ScanOp op) {
        T aggregate;
        ExclusiveScan(input, output, op, aggregate);
    }
    template <class ScanOp>
    void ExclusiveScan(T input, T& output, ScanOp op, T& aggregate) {
        T items[1] = {input};
        ExclusiveScan(items, items, op, aggregate);
        output = items[0];
    }

    // ---- exclusive scans of several values
    template <int N, class ScanOp>
    void ExclusiveScan(T (&input)[N], T (&output)[N], T initial_value, ScanOp op) {
        T aggregate;
        ExclusiveScan(input, output, initial_value, op, aggregate);
    }
    /// The aggregate does not include the initial value.
    template <int N, class ScanOp>
    void ExclusiveScan(T (&input)[N], T (&output)[N], T initial_value, ScanOp op, T& aggregate) {
        const detail::BlockSums<T> sums = sum_up(input, op);
        aggregate = sums.all;
        const T prefix = sums.has_before ? op(initial_value, sums.before) : initial_value;
        detail::scan_items_exclusively(input, output, op, true, prefix);
    }
    template <int N, class ScanOp, class Callback>
    void ExclusiveScan(T (&input)[N], T (&output)[N], ScanOp op, Callback& callback) {
        detail::scan_items_exclusively(input, output, op, true, prefix_of(sum_up(input, op), op, callback));
    }
    template <int N, class ScanOp>
    void ExclusiveScan(T (&input)[N], T (&output)[N], ScanOp op) {
        T aggregate;
        ExclusiveScan(input, output, op, aggregate);
    }
    template <int N, class ScanOp>
    void ExclusiveScan(T (&input)[N], T (&output)[N], ScanOp op, T& aggregate) {
        const detail::BlockSums<T> sums = sum_up(input, op);
        aggregate = sums.all;
        detail::scan_items_exclusively(input, output, op, sums.has_before, sums.before);
    }

    // ---- inclusive sums
    void InclusiveSum(T input, T& output) { InclusiveScan(input, output, cub::Sum()); }
    void InclusiveSum(T input, T& output, T& aggregate) { InclusiveScan(input, output, cub::Sum(), aggregate); }
    template <class Callback>
    void InclusiveSum(T input, T& output, Callback& callback) {
        InclusiveScan(input, output, cub::Sum(), callback);
    }
    template <int N>
    void InclusiveSum(T (&input)[N], T (&output)[N]) {
        InclusiveScan(input, output, cub::Sum());
    }
    template <int N>
    void InclusiveSum(T (&input)[N], T (&output)[N], T& aggregate) {
        InclusiveScan(input, output, cub::Sum(), aggregate);
    }
    template <int N, class Callback>
    void InclusiveSum(T (&input)[N], T (&output)[N], Callback& callback) {
        InclusiveScan(input, output, cub::Sum(), callback);
    }

    // ---- inclusive scans
    template <class ScanOp>
    void InclusiveScan(T input, T& output, ScanOp op) {
        T aggregate;
        InclusiveScan(input, output, op, aggregate);
    }
    template <class ScanOp>
    void InclusiveScan(T input, T& output, ScanOp op, T& aggregate) {
        T items[1] = {input};
        InclusiveScan(items, items, op, aggregate);
        output = items[0];
    }
    template <class ScanOp, class Callback>
    void InclusiveScan(T input, T& output, ScanOp op, Callback& callback) {
        T items[1] = {input};
        InclusiveScan(items, items, op, callback);
        output = items[0];
    }
    template <int N, class ScanOp>
    void InclusiveScan(T (&input)[N], T (&output)[N], ScanOp op) {
        T aggregate;
        InclusiveScan(input, output, op, aggregate);
    }
    template <int N, class ScanOp>
    void InclusiveScan(T (&input)[N], T (&output)[N], ScanOp op, T& aggregate) {
        const detail::BlockSums<T> sums = sum_up(input, op);
        aggregate = sums.all;
        detail::scan_items_inclusively(input, output, op, sums.has_before, sums.before);
    }
    template <int N, class ScanOp>
    void InclusiveScan(T (&input)[N], T (&output)[N], T initial_value, ScanOp op) {
        T aggregate;
        InclusiveScan(input, output, initial_value, op, aggregate);
    }
    template <int N, class ScanOp>
    void InclusiveScan(T (&input)[N], T (&output)[N], T initial_value, ScanOp op, T& aggregate) {
        const detail::BlockSums<T> sums = sum_up(input, op);
        aggregate = sums.all;
        const T prefix = sums.has_before ? op(initial_value, sums.before) : initial_value;
        detail::scan_items_inclusively(input, output, op, true, prefix);
    }
    template <int N, class ScanOp, class Callback>
    void InclusiveScan(T (&input)[N], T (&output)[N], ScanOp op, Callback& callback) {
        detail::scan_items_inclusively(input, output, op, true, prefix_of(sum_up(input, op), op, callback));
    }

  private:
    /// Uses one barrier.
    template <int N, class ScanOp>
    detail::BlockSums<T> sum_up(const T (&input)[N], ScanOp op) {
        const detail::LogicalWarp<32> warp(this->site);
        const T inclusive = warp.inclusive_scan(detail::reduce_items(input, op), op);
        const T exclusive = warp.from(inclusive, warp.rank - 1);
        const int own = this->rank / 32, rest = Base::block_threads - own * 32;
        if (warp.rank == (rest < 32 ? rest : 32) - 1) this->storage.sums[own].Alias() = inclusive;
        this->sync();
        detail::BlockSums<T> sums{exclusive, this->storage.sums[0].Alias(), this->rank > 0};
        for (int i = 1; i < Base::block_warps; i++) {
            if (i == own) sums.before = warp.rank > 0 ? op(sums.all, exclusive) : sums.all;
            sums.all = op(sums.all, this->storage.sums[i].Alias());
        }
        return sums;
    }

    /// The sum before a thread, including the callback's prefix. Uses one more barrier.
    template <class ScanOp, class Callback>
    T prefix_of(const detail::BlockSums<T>& sums, ScanOp op, Callback& callback) {
        if (this->rank < 32) {
            const T prefix = callback(sums.all);
            if (this->rank == 0) this->storage.prefix.Alias() = prefix;
        }
        this->sync();
        const T& prefix = this->storage.prefix.Alias();
        return sums.has_before ? op(prefix, sums.before) : prefix;
    }
};

}  // namespace cub
