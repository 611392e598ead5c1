// cub::BlockDiscontinuity: marks the items of a block that differ from their neighbours.
#pragma once

#include "../detail/neighbours.cuh"

namespace cub {

/// `flag_op(a, b)` or `flag_op(a, b, index of b)` returns whether b, which follows a, begins something new.
template <class T, int X, int Y = 1, int Z = 1>
class BlockDiscontinuity : public detail::NeighbourPrimitive<T, X, Y, Z> {
    using Base = detail::NeighbourPrimitive<T, X, Y, Z>;

  public:
    using typename Base::TempStorage;

    explicit BlockDiscontinuity(detail::Site site = detail::Site::here()) : Base(site) {}
    explicit BlockDiscontinuity(TempStorage& temp, detail::Site site = detail::Site::here()) : Base(temp, site) {}

    /// The block's first item is always flagged.
    template <int N, class FlagT, class FlagOp>
    void FlagHeads(FlagT (&heads)[N], T (&input)[N], FlagOp op) {
        T before[N];
        FlagHeads(heads, input, before, op);
    }
    template <int N, class FlagT, class FlagOp>
    void FlagHeads(FlagT (&heads)[N], T (&input)[N], T (&before)[N], FlagOp op) {
        flag_heads(heads, input, before, op, nullptr);
    }
    template <int N, class FlagT, class FlagOp>
    void FlagHeads(FlagT (&heads)[N], T (&input)[N], FlagOp op, T tile_predecessor) {
        T before[N];
        flag_heads(heads, input, before, op, &tile_predecessor);
    }
    template <int N, class FlagT, class FlagOp>
    void FlagHeads(FlagT (&heads)[N], T (&input)[N], T (&before)[N], FlagOp op, T tile_predecessor) {
        flag_heads(heads, input, before, op, &tile_predecessor);
    }

    /// The block's last item is always flagged.
    template <int N, class FlagT, class FlagOp>
    void FlagTails(FlagT (&tails)[N], T (&input)[N], FlagOp op) {
        flag_tails(tails, input, op, nullptr);
    }
    template <int N, class FlagT, class FlagOp>
    void FlagTails(FlagT (&tails)[N], T (&input)[N], FlagOp op, T tile_successor) {
        flag_tails(tails, input, op, &tile_successor);
    }

    template <int N, class FlagT, class FlagOp>
    void FlagHeadsAndTails(FlagT (&heads)[N], FlagT (&tails)[N], T (&input)[N], FlagOp op) {
        FlagHeads(heads, input, op);
        FlagTails(tails, input, op);
    }
    template <int N, class FlagT, class FlagOp>
    void FlagHeadsAndTails(FlagT (&heads)[N], FlagT (&tails)[N], T tile_successor, T (&input)[N], FlagOp op) {
        FlagHeads(heads, input, op);
        FlagTails(tails, input, op, tile_successor);
    }
    template <int N, class FlagT, class FlagOp>
    void FlagHeadsAndTails(FlagT (&heads)[N], T tile_predecessor, FlagT (&tails)[N], T (&input)[N], FlagOp op) {
        FlagHeads(heads, input, op, tile_predecessor);
        FlagTails(tails, input, op);
    }
    template <int N, class FlagT, class FlagOp>
    void FlagHeadsAndTails(FlagT (&heads)[N], T tile_predecessor, FlagT (&tails)[N], T tile_successor, T (&input)[N],
                           FlagOp op) {
        FlagHeads(heads, input, op, tile_predecessor);
        FlagTails(tails, input, op, tile_successor);
    }

  private:
    template <class FlagOp>
    static bool differs(FlagOp& op, const T& a, const T& b, int index) {
        if constexpr (std::is_invocable_v<FlagOp&, const T&, const T&, int>) return op(a, b, index);
        else return op(a, b);
    }

    template <int N, class FlagT, class FlagOp>
    void flag_heads(FlagT (&heads)[N], T (&input)[N], T (&before)[N], FlagOp op, const T* tile_predecessor) {
        const T first = this->item_before(input, tile_predecessor ? *tile_predecessor : input[0]);
        for (int i = 0; i < N; i++) {
            const bool is_first = i == 0 && this->rank == 0 && tile_predecessor == nullptr;
            if (!is_first) before[i] = i == 0 ? first : input[i - 1];
            heads[i] = is_first || differs(op, before[i], input[i], this->rank * N + i);
        }
    }

    template <int N, class FlagT, class FlagOp>
    void flag_tails(FlagT (&tails)[N], T (&input)[N], FlagOp op, const T* tile_successor) {
        const T behind = this->item_behind(input, tile_successor ? *tile_successor : input[N - 1]);
        for (int i = 0; i < N; i++) {
            const bool is_last = i == N - 1 && this->rank == Base::block_threads - 1 && tile_successor == nullptr;
            tails[i] = is_last || differs(op, input[i], i == N - 1 ? behind : input[i + 1], this->rank * N + i + 1);
        }
    }
};

}  // namespace cub
