// Logical warps: a warp's lanes in groups of `Threads`, as CUB numbers them.
#pragma once

#include "../config.cuh"

namespace cub {

/// A thread's number in a block of these extents, x first.
inline int RowMajorTid(int block_dim_x, int block_dim_y, int) {
    return static_cast<int>((threadIdx.z * block_dim_y + threadIdx.y) * block_dim_x + threadIdx.x);
}

namespace detail {

using tkjit::sim::Operation;
using tkjit::sim::Site;

/// Shuffles the bytes of any type.
template <class T>
T shuffle_bytes_of(unsigned mask, Operation operation, const T& value, int source_lane, Site site) {
    struct Bytes {
        unsigned char bytes[sizeof(T)];
    } bytes;
    __builtin_memcpy(&bytes, static_cast<const void*>(&value), sizeof(T));
    bytes = tkjit::sim::shuffle(mask, operation, bytes, source_lane, site);
    T result = value;
    __builtin_memcpy(static_cast<void*>(&result), &bytes, sizeof(T));
    return result;
}

template <int Threads>
unsigned lanes_of_warp(int first_lane) {
    return (Threads == 32 ? ~0u : (1u << Threads % 32) - 1) << first_lane;
}

template <int Threads>
struct LogicalWarp {
    static_assert(Threads >= 1 && Threads <= 32, "a logical warp must have 1 to 32 threads");

    explicit LogicalWarp(Site site)
        : rank(tkjit::sim::running_lane() % Threads),
          first(tkjit::sim::running_lane() - rank),
          mask(lanes_of_warp<Threads>(first)),
          site(site) {}

    /// Returns the number of the logical warp's lanes that exist in the block.
    int size() const { return __popc(mask & tkjit::sim::existing_lanes(*tkjit::sim::current_thread)); }

    /// Returns the value of the lane with the rank `source`, or the caller's own value if there is no such rank.
    template <class T>
    T from(const T& value, int source, Operation operation = Operation::shuffle) const {
        return shuffle_bytes_of(mask, operation, value, source >= 0 && source < Threads ? first + source : first + rank, site);
    }

    void sync() const { __syncwarp(mask, site); }

    /// Returns the sum of the values from the caller's rank to rank `valid - 1`, so rank 0 gets the sum of all of them.
    template <class T, class Op>
    T reduce(T value, Op op, int valid) const {
        for (int offset = 1; offset < Threads; offset *= 2) {
            const T other = from(value, rank + offset, Operation::shuffle_down);
            if (rank + offset < valid) value = op(value, other);
        }
        return value;
    }

    template <class T, class Op>
    T inclusive_scan(T value, Op op) const {
        for (int offset = 1; offset < Threads; offset *= 2) {
            const T other = from(value, rank - offset, Operation::shuffle_up);
            if (rank >= offset) value = op(other, value);
        }
        return value;
    }

    const int rank, first;
    const unsigned mask;
    const Site site;
};

}  // namespace detail
}  // namespace cub
