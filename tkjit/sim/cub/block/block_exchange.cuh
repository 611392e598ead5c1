// cub::BlockExchange: rearranges a block's items.
#pragma once

#include "../detail/block.cuh"
#include "../detail/direct.cuh"

namespace cub {

template <class T, int X, int ItemsPerThread, bool WarpTimeSlicing = false, int Y = 1, int Z = 1>
class BlockExchange : public detail::BlockPrimitive<Uninitialized<T>[X * Y * Z * ItemsPerThread], X, Y, Z> {
    using Base = detail::BlockPrimitive<Uninitialized<T>[X * Y * Z * ItemsPerThread], X, Y, Z>;
    static constexpr int N = ItemsPerThread, threads = X * Y * Z;

  public:
    using typename Base::TempStorage;

    explicit BlockExchange(detail::Site site = detail::Site::here()) : Base(site) {}
    explicit BlockExchange(TempStorage& temp, detail::Site site = detail::Site::here()) : Base(temp, site) {}

    template <class Output>
    void StripedToBlocked(const T (&input)[N], Output (&output)[N]) {
        exchange(input, output, striped(), blocked());
    }
    template <class Output>
    void BlockedToStriped(const T (&input)[N], Output (&output)[N]) {
        exchange(input, output, blocked(), striped());
    }
    template <class Output>
    void WarpStripedToBlocked(const T (&input)[N], Output (&output)[N]) {
        exchange_in_warp(input, output, warp_striped(), blocked());
    }
    template <class Output>
    void BlockedToWarpStriped(const T (&input)[N], Output (&output)[N]) {
        exchange_in_warp(input, output, blocked(), warp_striped());
    }

    template <class Output, class Offset>
    void ScatterToBlocked(const T (&input)[N], Output (&output)[N], Offset (&ranks)[N]) {
        exchange(input, output, by(ranks), blocked());
    }
    template <class Output, class Offset>
    void ScatterToStriped(const T (&input)[N], Output (&output)[N], Offset (&ranks)[N]) {
        exchange(input, output, by(ranks), striped());
    }
    /// Items with negative ranks are left out.
    template <class Output, class Offset>
    void ScatterToStripedGuarded(const T (&input)[N], Output (&output)[N], Offset (&ranks)[N]) {
        bool valid[N];
        for (int i = 0; i < N; i++) valid[i] = ranks[i] >= 0;
        ScatterToStripedFlagged(input, output, ranks, valid);
    }
    template <class Output, class Offset, class ValidFlag>
    void ScatterToStripedFlagged(const T (&input)[N], Output (&output)[N], Offset (&ranks)[N], ValidFlag (&valid)[N]) {
        for (int i = 0; i < N; i++) {
            if (valid[i]) this->storage[ranks[i]].Alias() = input[i];
        }
        this->sync();
        for (int i = 0; i < N; i++) output[i] = this->storage[striped()(i)].Alias();
    }

    // ---- the same in place
    void StripedToBlocked(T (&items)[N]) { StripedToBlocked(items, items); }
    void BlockedToStriped(T (&items)[N]) { BlockedToStriped(items, items); }
    void WarpStripedToBlocked(T (&items)[N]) { WarpStripedToBlocked(items, items); }
    void BlockedToWarpStriped(T (&items)[N]) { BlockedToWarpStriped(items, items); }
    template <class Offset>
    void ScatterToBlocked(T (&items)[N], Offset (&ranks)[N]) {
        ScatterToBlocked(items, items, ranks);
    }
    template <class Offset>
    void ScatterToStriped(T (&items)[N], Offset (&ranks)[N]) {
        ScatterToStriped(items, items, ranks);
    }
    template <class Offset>
    void ScatterToStripedGuarded(T (&items)[N], Offset (&ranks)[N]) {
        ScatterToStripedGuarded(items, items, ranks);
    }
    template <class Offset, class ValidFlag>
    void ScatterToStripedFlagged(T (&items)[N], Offset (&ranks)[N], ValidFlag (&valid)[N]) {
        ScatterToStripedFlagged(items, items, ranks, valid);
    }

  private:
    detail::Blocked blocked() const { return {this->rank, N}; }
    detail::Striped striped() const { return {this->rank, threads}; }
    /// If the block's size is not a multiple of 32, the stripes of its last warp are shorter.
    auto warp_striped() const {
        const int first = this->rank / 32 * 32, size = threads - first < 32 ? threads - first : 32;
        return [first, size, rank = this->rank](int i) { return first * N + i * size + rank - first; };
    }
    template <class Offset>
    static auto by(Offset (&ranks)[N]) {
        return [&ranks](int i) { return static_cast<int>(ranks[i]); };
    }

    template <class Output, class From, class To>
    void exchange(const T (&input)[N], Output (&output)[N], From from, To to) {
        detail::exchange(this->storage, input, output, from, to, [this] { this->sync(); });
    }
    template <class Output, class From, class To>
    void exchange_in_warp(const T (&input)[N], Output (&output)[N], From from, To to) {
        detail::exchange(this->storage, input, output, from, to, [this] { __syncwarp(~0u, this->site); });
    }
};

}  // namespace cub
