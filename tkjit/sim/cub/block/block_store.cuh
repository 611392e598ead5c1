// cub::BlockStore: stores a block's items, of which each thread has adjacent ones.
#pragma once

#include "block_exchange.cuh"

namespace cub {

enum BlockStoreAlgorithm {
    BLOCK_STORE_DIRECT,
    BLOCK_STORE_STRIPED,
    BLOCK_STORE_VECTORIZE,
    BLOCK_STORE_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED,
};

// Each function can also take the number of valid items.
template <class T, int N, class Iterator, class... End>
void StoreDirectBlocked(int linear_tid, Iterator destination, T (&items)[N], End... end) {
    detail::store(destination, items, detail::Blocked{linear_tid, N}, end...);
}
template <class T, int N>
void StoreDirectBlockedVectorized(int linear_tid, T* destination, T (&items)[N]) {
    detail::store(destination, items, detail::Blocked{linear_tid, N});
}
template <int BlockThreads, class T, int N, class Iterator, class... End>
void StoreDirectStriped(int linear_tid, Iterator destination, T (&items)[N], End... end) {
    detail::store(destination, items, detail::Striped{linear_tid, BlockThreads}, end...);
}
template <class T, int N, class Iterator, class... End>
void StoreDirectWarpStriped(int linear_tid, Iterator destination, T (&items)[N], End... end) {
    detail::store(destination, items, detail::WarpStriped{linear_tid, N}, end...);
}

template <class T, int X, int ItemsPerThread, BlockStoreAlgorithm Algorithm = BLOCK_STORE_DIRECT, int Y = 1, int Z = 1>
class BlockStore {
    static constexpr int N = ItemsPerThread;
    static constexpr bool in_block = Algorithm == BLOCK_STORE_TRANSPOSE, in_warp = Algorithm > BLOCK_STORE_TRANSPOSE;
    using Exchange = BlockExchange<T, X, N, false, Y, Z>;
    static_assert(!in_warp || X * Y * Z % 32 == 0, "the block must consist of whole warps");

  public:
    struct TempStorage : std::conditional_t<in_block || in_warp, typename Exchange::TempStorage,
                                            Uninitialized<detail::NoStorage>> {};

    explicit BlockStore(detail::Site site = detail::Site::here()) : BlockStore(own_storage(), site) {}
    explicit BlockStore(TempStorage& temp, detail::Site site = detail::Site::here()) : temp(temp), site(site) {}

    template <class Iterator>
    void Store(Iterator destination, T (&items)[N]) {
        store(destination, items);
    }
    template <class Iterator>
    void Store(Iterator destination, T (&items)[N], int valid_items) {
        store(destination, items, valid_items);
    }

  private:
    static TempStorage& own_storage() {
        __shared__ TempStorage storage;
        return storage;
    }

    template <class Iterator, class... End>
    void store(Iterator destination, T (&items)[N], End... end) {
        const int rank = RowMajorTid(X, Y, Z);
        if constexpr (in_block) {
            Exchange(temp, site).BlockedToStriped(items, items);
            StoreDirectStriped<X * Y * Z>(rank, destination, items, end...);
        } else if constexpr (in_warp) {
            Exchange(temp, site).BlockedToWarpStriped(items, items);
            StoreDirectWarpStriped(rank, destination, items, end...);
        } else if constexpr (Algorithm == BLOCK_STORE_STRIPED) {
            StoreDirectStriped<X * Y * Z>(rank, destination, items, end...);
        } else {
            StoreDirectBlocked(rank, destination, items, end...);
        }
    }

    TempStorage& temp;
    const detail::Site site;
};

}  // namespace cub
