// cub::BlockLoad: loads a block's items, so that each thread has adjacent ones.
#pragma once

#include "../iterator/cache_modified_input_iterator.cuh"
#include "block_exchange.cuh"

namespace cub {

enum BlockLoadAlgorithm {
    BLOCK_LOAD_DIRECT,
    BLOCK_LOAD_STRIPED,
    BLOCK_LOAD_VECTORIZE,
    BLOCK_LOAD_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED,
};

// Each function can also take the end of the valid items, and then the value of items beyond that end.
template <class T, int N, class Iterator, class... End>
void LoadDirectBlocked(int linear_tid, Iterator source, T (&items)[N], End... end) {
    detail::load(source, items, detail::Blocked{linear_tid, N}, end...);
}
template <class T, int N>
void LoadDirectBlockedVectorized(int linear_tid, T* source, T (&items)[N]) {
    detail::load(source, items, detail::Blocked{linear_tid, N});
}
template <int BlockThreads, class T, int N, class Iterator, class... End>
void LoadDirectStriped(int linear_tid, Iterator source, T (&items)[N], End... end) {
    detail::load(source, items, detail::Striped{linear_tid, BlockThreads}, end...);
}
template <class T, int N, class Iterator, class... End>
void LoadDirectWarpStriped(int linear_tid, Iterator source, T (&items)[N], End... end) {
    detail::load(source, items, detail::WarpStriped{linear_tid, N}, end...);
}

namespace detail {

enum class Transposing { none, block, warp };

constexpr Transposing transposing(BlockLoadAlgorithm algorithm) {
    return algorithm == BLOCK_LOAD_TRANSPOSE       ? Transposing::block
           : algorithm < BLOCK_LOAD_WARP_TRANSPOSE ? Transposing::none
                                                   : Transposing::warp;
}

}  // namespace detail

template <class T, int X, int ItemsPerThread, BlockLoadAlgorithm Algorithm = BLOCK_LOAD_DIRECT, int Y = 1, int Z = 1>
class BlockLoad {
    static constexpr int N = ItemsPerThread;
    static constexpr detail::Transposing transposing = detail::transposing(Algorithm);
    using Exchange = BlockExchange<T, X, N, false, Y, Z>;
    static_assert(transposing != detail::Transposing::warp || X * Y * Z % 32 == 0,
                  "the block must consist of whole warps");

  public:
    struct TempStorage
        : std::conditional_t<transposing == detail::Transposing::none, Uninitialized<detail::NoStorage>,
                             typename Exchange::TempStorage> {};

    explicit BlockLoad(detail::Site site = detail::Site::here()) : BlockLoad(own_storage(), site) {}
    explicit BlockLoad(TempStorage& temp, detail::Site site = detail::Site::here()) : temp(temp), site(site) {}

    template <class Iterator>
    void Load(Iterator source, T (&items)[N]) {
        load(source, items);
    }
    /// Items from `items_end` on stay as they are.
    template <class Iterator>
    void Load(Iterator source, T (&items)[N], int items_end) {
        load(source, items, items_end);
    }
    template <class Iterator, class Default>
    void Load(Iterator source, T (&items)[N], int items_end, Default oob_default) {
        load(source, items, items_end, oob_default);
    }

  private:
    static TempStorage& own_storage() {
        __shared__ TempStorage storage;
        return storage;
    }

    template <class Iterator, class... End>
    void load(Iterator source, T (&items)[N], End... end) {
        const int rank = RowMajorTid(X, Y, Z);
        if constexpr (transposing == detail::Transposing::block) {
            LoadDirectStriped<X * Y * Z>(rank, source, items, end...);
            Exchange(temp, site).StripedToBlocked(items, items);
        } else if constexpr (transposing == detail::Transposing::warp) {
            LoadDirectWarpStriped(rank, source, items, end...);
            Exchange(temp, site).WarpStripedToBlocked(items, items);
        } else if constexpr (Algorithm == BLOCK_LOAD_STRIPED) {
            LoadDirectStriped<X * Y * Z>(rank, source, items, end...);
        } else {
            LoadDirectBlocked(rank, source, items, end...);
        }
    }

    TempStorage& temp;
    const detail::Site site;
};

}  // namespace cub
