// cub::BlockAdjacentDifference: differences of neighbouring items of a block.
#pragma once

#include "../detail/neighbours.cuh"

namespace cub {

/// SubtractLeft returns `op(item, previous item)`, and SubtractRight `op(item, next item)`. An item without such a
/// neighbour is copied.
template <class T, int X, int Y = 1, int Z = 1>
class BlockAdjacentDifference : public detail::NeighbourPrimitive<T, X, Y, Z> {
    using Base = detail::NeighbourPrimitive<T, X, Y, Z>;

  public:
    using typename Base::TempStorage;

    explicit BlockAdjacentDifference(detail::Site site = detail::Site::here()) : Base(site) {}
    explicit BlockAdjacentDifference(TempStorage& temp, detail::Site site = detail::Site::here()) : Base(temp, site) {}

    template <int N, class Output, class DifferenceOp>
    void SubtractLeft(T (&input)[N], Output (&output)[N], DifferenceOp op) {
        subtract_left(input, output, op, Base::block_threads * N, nullptr);
    }
    template <int N, class Output, class DifferenceOp>
    void SubtractLeft(T (&input)[N], Output (&output)[N], DifferenceOp op, T tile_predecessor) {
        subtract_left(input, output, op, Base::block_threads * N, &tile_predecessor);
    }
    /// Subtracts only for the block's first `valid_items` items, and copies the others.
    template <int N, class Output, class DifferenceOp>
    void SubtractLeftPartialTile(T (&input)[N], Output (&output)[N], DifferenceOp op, int valid_items) {
        subtract_left(input, output, op, valid_items, nullptr);
    }
    template <int N, class Output, class DifferenceOp>
    void SubtractLeftPartialTile(T (&input)[N], Output (&output)[N], DifferenceOp op, int valid_items,
                                 T tile_predecessor) {
        subtract_left(input, output, op, valid_items, &tile_predecessor);
    }

    template <int N, class Output, class DifferenceOp>
    void SubtractRight(T (&input)[N], Output (&output)[N], DifferenceOp op) {
        subtract_right(input, output, op, Base::block_threads * N, nullptr);
    }
    template <int N, class Output, class DifferenceOp>
    void SubtractRight(T (&input)[N], Output (&output)[N], DifferenceOp op, T tile_successor) {
        subtract_right(input, output, op, Base::block_threads * N, &tile_successor);
    }
    template <int N, class Output, class DifferenceOp>
    void SubtractRightPartialTile(T (&input)[N], Output (&output)[N], DifferenceOp op, int valid_items) {
        subtract_right(input, output, op, valid_items, nullptr);
    }

  private:
    template <int N, class Output, class DifferenceOp>
    void subtract_left(T (&input)[N], Output (&output)[N], DifferenceOp op, int valid, const T* predecessor) {
        T before = this->item_before(input, predecessor ? *predecessor : input[0]);
        for (int i = 0; i < N; i++) {
            T item = input[i];  // the operator may take references
            const int index = this->rank * N + i;
            const bool subtracts = index < valid && (index > 0 || predecessor);
            if (subtracts) output[i] = op(item, before);
            else output[i] = item;
            before = item;
        }
    }

    template <int N, class Output, class DifferenceOp>
    void subtract_right(T (&input)[N], Output (&output)[N], DifferenceOp op, int valid, const T* successor) {
        T behind = this->item_behind(input, successor ? *successor : input[N - 1]);
        for (int i = 0; i < N; i++) {
            T item = input[i];  // the operator may take references
            const int next = this->rank * N + i + 1;
            const bool subtracts = next < valid || (successor && next == valid);
            if (subtracts) output[i] = op(item, i == N - 1 ? behind : input[i + 1]);
            else output[i] = item;
        }
    }
};

}  // namespace cub
