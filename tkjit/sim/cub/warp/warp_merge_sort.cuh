// cub::WarpMergeSort: a stable sort of a logical warp's items by a comparison.
#pragma once

#include "../detail/direct.cuh"
#include "../detail/logical_warp.cuh"
#include "../detail/merge_sort.cuh"
#include "../detail/sort.cuh"

namespace cub {

template <class KeyT, int ItemsPerThread, int LogicalWarpThreads = 32, class ValueT = NullType>
class WarpMergeSort
    : public detail::MergeSort<WarpMergeSort<KeyT, ItemsPerThread, LogicalWarpThreads, ValueT>, KeyT, ValueT, ItemsPerThread> {
    static constexpr int N = ItemsPerThread;
    using Storage = detail::SortStorage<KeyT, ValueT, LogicalWarpThreads * N>;
    friend detail::MergeSort<WarpMergeSort, KeyT, ValueT, N>;

  public:
    struct TempStorage : Uninitialized<Storage> {};

    explicit WarpMergeSort(TempStorage& temp, detail::Site site = detail::Site::here())
        : storage(temp.Alias()), warp(site) {}

  private:
    int first_item() const { return warp.rank * N; }

    template <class CompareOp>
    void sort(KeyT (&keys)[N], ValueT (*values)[N], CompareOp before) {
        warp.sync();
        detail::sort_items(storage, warp.rank, keys, values, before, [this] { warp.sync(); },
                           detail::Blocked{warp.rank, N});
    }

    Storage& storage;
    const detail::LogicalWarp<LogicalWarpThreads> warp;
};

}  // namespace cub
