// cub::BlockMergeSort: a stable sort of a block's items by a comparison.
#pragma once

#include "../detail/block.cuh"
#include "../detail/direct.cuh"
#include "../detail/merge_sort.cuh"
#include "../detail/sort.cuh"

namespace cub {

template <class KeyT, int X, int ItemsPerThread, class ValueT = NullType, int Y = 1, int Z = 1>
class BlockMergeSort
    : public detail::BlockPrimitive<detail::SortStorage<KeyT, ValueT, X * Y * Z * ItemsPerThread>, X, Y, Z>,
      public detail::MergeSort<BlockMergeSort<KeyT, X, ItemsPerThread, ValueT, Y, Z>, KeyT, ValueT, ItemsPerThread> {
    using Base = detail::BlockPrimitive<detail::SortStorage<KeyT, ValueT, X * Y * Z * ItemsPerThread>, X, Y, Z>;
    static constexpr int N = ItemsPerThread;
    static_assert((X * Y * Z & (X * Y * Z - 1)) == 0, "the number of threads must be a power of two");
    friend detail::MergeSort<BlockMergeSort, KeyT, ValueT, N>;

  public:
    using typename Base::TempStorage;

    explicit BlockMergeSort(detail::Site site = detail::Site::here()) : Base(site) {}
    explicit BlockMergeSort(TempStorage& temp, detail::Site site = detail::Site::here()) : Base(temp, site) {}

  private:
    int first_item() const { return this->rank * N; }

    template <class CompareOp>
    void sort(KeyT (&keys)[N], ValueT (*values)[N], CompareOp before) {
        detail::sort_items(this->storage, this->rank, keys, values, before, [this] { this->sync(); },
                           detail::Blocked{this->rank, N});
    }
};

}  // namespace cub
