// Exchanges items between neighbouring threads through shared memory.
#pragma once

#include "block.cuh"

namespace cub::detail {

template <class T, int Threads>
struct NeighbourStorage {
    Uninitialized<T> first[Threads], last[Threads];
};

template <class T, int X, int Y, int Z>
class NeighbourPrimitive : public BlockPrimitive<NeighbourStorage<T, X * Y * Z>, X, Y, Z> {
    using Base = BlockPrimitive<NeighbourStorage<T, X * Y * Z>, X, Y, Z>;

  protected:
    using Base::Base;

    /// The last item of the previous thread, or `other` in the first thread.
    template <int N>
    T item_before(const T (&items)[N], const T& other) {
        this->storage.last[this->rank].Alias() = items[N - 1];
        this->sync();
        return this->rank == 0 ? other : this->storage.last[this->rank - 1].Alias();
    }
    /// The first item of the next thread, or `other` in the last thread.
    template <int N>
    T item_behind(const T (&items)[N], const T& other) {
        this->storage.first[this->rank].Alias() = items[0];
        this->sync();
        return this->rank == Base::block_threads - 1 ? other : this->storage.first[this->rank + 1].Alias();
    }
};

}  // namespace cub::detail
