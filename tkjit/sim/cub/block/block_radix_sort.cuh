// cub::BlockRadixSort: a stable sort of a block's numbers.
#pragma once

#include "../detail/block.cuh"
#include "../detail/direct.cuh"
#include "../detail/sort.cuh"
#include "block_scan.cuh"

namespace cub {

/// The template parameters after the values select how CUB sorts, and do not affect the result.
template <class KeyT, int X, int ItemsPerThread, class ValueT = NullType, int RadixBits = 4, bool MemoizeOuterScan = true,
          BlockScanAlgorithm InnerScanAlgorithm = BLOCK_SCAN_WARP_SCANS,
          cudaSharedMemConfig SmemConfig = cudaSharedMemBankSizeFourByte, int Y = 1, int Z = 1>
class BlockRadixSort
    : public detail::BlockPrimitive<detail::SortStorage<KeyT, ValueT, X * Y * Z * ItemsPerThread>, X, Y, Z> {
    using Base = detail::BlockPrimitive<detail::SortStorage<KeyT, ValueT, X * Y * Z * ItemsPerThread>, X, Y, Z>;
    static constexpr int N = ItemsPerThread, key_bits = sizeof(KeyT) * 8;

  public:
    using typename Base::TempStorage;

    explicit BlockRadixSort(detail::Site site = detail::Site::here()) : Base(site) {}
    explicit BlockRadixSort(TempStorage& temp, detail::Site site = detail::Site::here()) : Base(temp, site) {}

    void Sort(KeyT (&keys)[N], int begin_bit = 0, int end_bit = key_bits) {
        sort(keys, nullptr, {begin_bit, end_bit, false}, blocked());
    }
    void Sort(KeyT (&keys)[N], ValueT (&values)[N], int begin_bit = 0, int end_bit = key_bits) {
        sort(keys, &values, {begin_bit, end_bit, false}, blocked());
    }
    void SortDescending(KeyT (&keys)[N], int begin_bit = 0, int end_bit = key_bits) {
        sort(keys, nullptr, {begin_bit, end_bit, true}, blocked());
    }
    void SortDescending(KeyT (&keys)[N], ValueT (&values)[N], int begin_bit = 0, int end_bit = key_bits) {
        sort(keys, &values, {begin_bit, end_bit, true}, blocked());
    }
    void SortBlockedToStriped(KeyT (&keys)[N], int begin_bit = 0, int end_bit = key_bits) {
        sort(keys, nullptr, {begin_bit, end_bit, false}, striped());
    }
    void SortBlockedToStriped(KeyT (&keys)[N], ValueT (&values)[N], int begin_bit = 0, int end_bit = key_bits) {
        sort(keys, &values, {begin_bit, end_bit, false}, striped());
    }
    void SortDescendingBlockedToStriped(KeyT (&keys)[N], int begin_bit = 0, int end_bit = key_bits) {
        sort(keys, nullptr, {begin_bit, end_bit, true}, striped());
    }
    void SortDescendingBlockedToStriped(KeyT (&keys)[N], ValueT (&values)[N], int begin_bit = 0,
                                        int end_bit = key_bits) {
        sort(keys, &values, {begin_bit, end_bit, true}, striped());
    }

  private:
    detail::Blocked blocked() const { return {this->rank, N}; }
    detail::Striped striped() const { return {this->rank, Base::block_threads}; }

    template <class To>
    void sort(KeyT (&keys)[N], ValueT (*values)[N], detail::RadixOrder order, To to) {
        detail::sort_items(this->storage, this->rank, keys, values, order, [this] { this->sync(); }, to);
    }
};

}  // namespace cub
