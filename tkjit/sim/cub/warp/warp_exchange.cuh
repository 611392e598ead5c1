// cub::WarpExchange: rearranges a logical warp's items.
#pragma once

#include "../detail/direct.cuh"
#include "../detail/logical_warp.cuh"
#include "../util_type.cuh"

namespace cub {

enum WarpExchangeAlgorithm { WARP_EXCHANGE_SMEM, WARP_EXCHANGE_SHUFFLE };

template <class T, int ItemsPerThread, int LogicalWarpThreads = 32, WarpExchangeAlgorithm Algorithm = WARP_EXCHANGE_SMEM>
class WarpExchange {
    static constexpr int N = ItemsPerThread;
    using Storage = Uninitialized<T>[LogicalWarpThreads * N];

  public:
    struct TempStorage : Uninitialized<Storage> {};

    explicit WarpExchange(TempStorage& temp, detail::Site site = detail::Site::here()) : storage(temp.Alias()), warp(site) {}

    template <class Output>
    void BlockedToStriped(const T (&input)[N], Output (&output)[N]) {
        exchange(input, output, blocked(), striped());
    }
    template <class Output>
    void StripedToBlocked(const T (&input)[N], Output (&output)[N]) {
        exchange(input, output, striped(), blocked());
    }
    template <class Offset>
    void ScatterToStriped(T (&items)[N], Offset (&ranks)[N]) {
        ScatterToStriped(items, items, ranks);
    }
    template <class Output, class Offset>
    void ScatterToStriped(const T (&input)[N], Output (&output)[N], Offset (&ranks)[N]) {
        exchange(input, output, [&ranks](int i) { return static_cast<int>(ranks[i]); }, striped());
    }

  private:
    detail::Blocked blocked() const { return {warp.rank, N}; }
    detail::Striped striped() const { return {warp.rank, LogicalWarpThreads}; }

    template <class Output, class From, class To>
    void exchange(const T (&input)[N], Output (&output)[N], From from, To to) {
        detail::exchange(storage, input, output, from, to, [this] { warp.sync(); });
    }

    Storage& storage;
    const detail::LogicalWarp<LogicalWarpThreads> warp;
};

}  // namespace cub
