// cub::BlockShuffle: moves a block's items to other threads.
#pragma once

#include "../detail/block.cuh"

namespace cub {

template <class T, int X, int Y = 1, int Z = 1>
class BlockShuffle : public detail::BlockPrimitive<Uninitialized<T>[X * Y * Z], X, Y, Z> {
    using Base = detail::BlockPrimitive<Uninitialized<T>[X * Y * Z], X, Y, Z>;

  public:
    using typename Base::TempStorage;

    explicit BlockShuffle(detail::Site site = detail::Site::here()) : Base(site) {}
    explicit BlockShuffle(TempStorage& temp, detail::Site site = detail::Site::here()) : Base(temp, site) {}

    /// Gets the input of the thread at `distance`, if there is one.
    void Offset(T input, T& output, int distance = 1) {
        share(input);
        const int source = this->rank + distance;
        if (source >= 0 && source < Base::block_threads) output = this->storage[source].Alias();
    }
    void Rotate(T input, T& output, unsigned distance = 1) {
        share(input);
        output = this->storage[(this->rank + distance) % Base::block_threads].Alias();
    }

    /// Moves each item up by one. The block's first output stays as it is; `suffix` gets the block's last item.
    template <int N>
    void Up(T (&input)[N], T (&output)[N]) {
        share(input[N - 1]);
        for (int i = N - 1; i > 0; i--) output[i] = input[i - 1];
        if (this->rank > 0) output[0] = this->storage[this->rank - 1].Alias();
    }
    template <int N>
    void Up(T (&input)[N], T (&output)[N], T& suffix) {
        Up(input, output);
        suffix = this->storage[Base::block_threads - 1].Alias();
    }
    /// Moves each item down by one. The block's last output stays as it is; `prefix` gets the block's first item.
    template <int N>
    void Down(T (&input)[N], T (&output)[N]) {
        share(input[0]);
        for (int i = 0; i < N - 1; i++) output[i] = input[i + 1];
        if (this->rank < Base::block_threads - 1) output[N - 1] = this->storage[this->rank + 1].Alias();
    }
    template <int N>
    void Down(T (&input)[N], T (&output)[N], T& prefix) {
        Down(input, output);
        prefix = this->storage[0].Alias();
    }

  private:
    void share(const T& item) {
        this->storage[this->rank].Alias() = item;
        this->sync();
    }
};

}  // namespace cub
