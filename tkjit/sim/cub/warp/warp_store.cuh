// cub::WarpStore: stores a logical warp's items, of which each thread has adjacent ones.
#pragma once

#include "warp_exchange.cuh"

#include <type_traits>

namespace cub {

enum WarpStoreAlgorithm { WARP_STORE_DIRECT, WARP_STORE_STRIPED, WARP_STORE_VECTORIZE, WARP_STORE_TRANSPOSE };

template <class T, int ItemsPerThread, WarpStoreAlgorithm Algorithm = WARP_STORE_DIRECT, int LogicalWarpThreads = 32>
class WarpStore {
    static constexpr int N = ItemsPerThread;
    static constexpr bool transposes = Algorithm == WARP_STORE_TRANSPOSE;
    using Exchange = WarpExchange<T, N, LogicalWarpThreads>;

  public:
    struct TempStorage
        : std::conditional_t<transposes, typename Exchange::TempStorage, Uninitialized<NullType>> {};

    explicit WarpStore(TempStorage& temp, detail::Site site = detail::Site::here()) : temp(temp), warp(site) {}

    template <class Iterator>
    void Store(Iterator destination, T (&items)[N]) {
        store(destination, items);
    }
    template <class Iterator>
    void Store(Iterator destination, T (&items)[N], int valid_items) {
        store(destination, items, valid_items);
    }

  private:
    template <class Iterator, class... End>
    void store(Iterator destination, T (&items)[N], End... end) {
        if constexpr (transposes) Exchange(temp, warp.site).BlockedToStriped(items, items);
        if constexpr (transposes || Algorithm == WARP_STORE_STRIPED) {
            detail::store(destination, items, detail::Striped{warp.rank, LogicalWarpThreads}, end...);
        } else {
            detail::store(destination, items, detail::Blocked{warp.rank, N}, end...);
        }
    }

    TempStorage& temp;
    const detail::LogicalWarp<LogicalWarpThreads> warp;
};

}  // namespace cub
