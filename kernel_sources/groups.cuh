// Groups of adjacent rows.
#pragma once

/// A group of rows of A, and the tiles of its part of C. `find` moves on to another group. The rows after the last group are
/// one more group, whose number is the number of groups.
template <class Problem>
class Groups {
public:
    int number = 0, begin = 0, end;  // of the present group: its number, its first row, and the row after its last one
    int first_tile = 0;

    __device__ Groups(const Problem& g, int rows_of_tile, int tiles_across)
        : end(end_of(g, 0, 0)), g_(g), rows_of_tile_(rows_of_tile), across_(tiles_across) {}

    /// Finds the group with the tile `index`, which is not before the present group. Returns false if there is none.
    __device__ bool find(int index) {
        while (index >= first_tile + tiles_down() * across_) {
            if (is_rest()) return false;
            first_tile += tiles_down() * across_;
            begin = end;
            end = end_of(g_, ++number, begin);
        }
        return true;
    }

    /// The row after the last one of a group that begins at `begin`. Ends that decrease or exceed the number of rows make
    /// groups empty or shorter.
    static __device__ int end_of(const Problem& g, int number, int begin) {
        return number < g.ends.cols() ? min(g.a.rows(), max(begin, g.ends[number])) : g.a.rows();
    }

    __device__ int tiles_down() const { return (end - begin + rows_of_tile_ - 1) / rows_of_tile_; }
    __device__ bool is_rest() const { return number == g_.ends.cols(); }

private:
    const Problem& g_;
    int rows_of_tile_, across_;
};
