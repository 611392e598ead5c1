// cub::BlockHistogram: counts a block's items by bin; each item is the number of its bin.
#pragma once

#include "../detail/block.cuh"

namespace cub {

enum BlockHistogramAlgorithm { BLOCK_HISTO_SORT, BLOCK_HISTO_ATOMIC };

/// In the simulator both algorithms count with atomics.
template <class T, int X, int ItemsPerThread, int Bins, BlockHistogramAlgorithm Algorithm = BLOCK_HISTO_SORT, int Y = 1,
          int Z = 1>
class BlockHistogram : public detail::BlockPrimitive<detail::NoStorage, X, Y, Z> {
    using Base = detail::BlockPrimitive<detail::NoStorage, X, Y, Z>;

  public:
    using typename Base::TempStorage;

    explicit BlockHistogram(detail::Site site = detail::Site::here()) : Base(site) {}
    explicit BlockHistogram(TempStorage& temp, detail::Site site = detail::Site::here()) : Base(temp, site) {}

    /// Sets all counters to zero, without a barrier.
    template <class CounterT>
    void InitHistogram(CounterT histogram[Bins]) {
        for (int bin = this->rank; bin < Bins; bin += Base::block_threads) histogram[bin] = 0;
    }
    template <class CounterT>
    void Histogram(T (&items)[ItemsPerThread], CounterT histogram[Bins]) {
        InitHistogram(histogram);
        this->sync();
        Composite(items, histogram);
    }
    /// Counts the items without setting the counters to zero first.
    template <class CounterT>
    void Composite(T (&items)[ItemsPerThread], CounterT histogram[Bins]) {
        for (const T& item : items) {
            CounterT* const counter = histogram + item;
            if constexpr (std::is_integral_v<CounterT> && sizeof(CounterT) != 4 && sizeof(CounterT) != 8) {
                __atomic_fetch_add(counter, CounterT{1}, __ATOMIC_RELAXED);
            } else {
                atomicAdd(counter, CounterT{1});
            }
        }
    }
};

}  // namespace cub
