// cub::WarpLoad: loads a logical warp's items. Each thread gets adjacent items, or with WARP_LOAD_STRIPED those at a
// distance of the warp's size.
#pragma once

#include "warp_exchange.cuh"

#include <type_traits>

namespace cub {

enum WarpLoadAlgorithm { WARP_LOAD_DIRECT, WARP_LOAD_STRIPED, WARP_LOAD_VECTORIZE, WARP_LOAD_TRANSPOSE };

template <class T, int ItemsPerThread, WarpLoadAlgorithm Algorithm = WARP_LOAD_DIRECT, int LogicalWarpThreads = 32>
class WarpLoad {
    static constexpr int N = ItemsPerThread;
    static constexpr bool transposes = Algorithm == WARP_LOAD_TRANSPOSE;
    using Exchange = WarpExchange<T, N, LogicalWarpThreads>;

  public:
    struct TempStorage
        : std::conditional_t<transposes, typename Exchange::TempStorage, Uninitialized<NullType>> {};

    explicit WarpLoad(TempStorage& temp, detail::Site site = detail::Site::here()) : temp(temp), warp(site) {}

    template <class Iterator>
    void Load(Iterator source, T (&items)[N]) {
        load(source, items);
    }
    template <class Iterator>
    void Load(Iterator source, T (&items)[N], int valid_items) {
        load(source, items, valid_items);
    }
    template <class Iterator, class Default>
    void Load(Iterator source, T (&items)[N], int valid_items, Default oob_default) {
        load(source, items, valid_items, oob_default);
    }

  private:
    template <class Iterator, class... End>
    void load(Iterator source, T (&items)[N], End... end) {
        if constexpr (transposes || Algorithm == WARP_LOAD_STRIPED) {
            detail::load(source, items, detail::Striped{warp.rank, LogicalWarpThreads}, end...);
        } else {
            detail::load(source, items, detail::Blocked{warp.rank, N}, end...);
        }
        if constexpr (transposes) Exchange(temp, warp.site).StripedToBlocked(items, items);
    }

    TempStorage& temp;
    const detail::LogicalWarp<LogicalWarpThreads> warp;
};

}  // namespace cub
