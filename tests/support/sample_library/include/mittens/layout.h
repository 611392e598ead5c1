// Global layouts: a pointer and four extents, some of which the type may fix.
#pragma once

#include <cuda_runtime.h>

#include <mittens/tensor_map.h>

#include <concepts>
#include <cstddef>

namespace mittens {

// An extent that the type fixes is passed as nullptr, and takes no space.
template <int Extent>
struct extent {
    using argument = std::nullptr_t;
    constexpr extent(std::nullptr_t) {}
    __host__ __device__ constexpr operator int() const { return Extent; }
};
template <>
struct extent<-1> {
    using argument = int;
    int value;
    constexpr extent(int value) : value(value) {}
    __host__ __device__ constexpr operator int() const { return value; }
};
template <int Extent>
using extent_argument = typename extent<Extent>::argument;

struct layout_identifier {};

template <class T, int Batch, int Depth, int Rows, int Cols, class... Tiles>
struct gl {
    using identifier = layout_identifier;
    using dtype = T;
    static constexpr int __b__ = Batch, __d__ = Depth, __r__ = Rows, __c__ = Cols;

    T* raw_ptr;
    [[no_unique_address]] extent<Batch> batch_;
    [[no_unique_address]] extent<Depth> depth_;
    [[no_unique_address]] extent<Rows> rows_;
    [[no_unique_address]] extent<Cols> cols_;
    tensor_maps<Tiles...> maps;

    gl() = delete;
    gl(T* data, extent_argument<Batch> batch, extent_argument<Depth> depth, extent_argument<Rows> rows,
       extent_argument<Cols> cols)
        : raw_ptr(data), batch_(batch), depth_(depth), rows_(rows), cols_(cols), maps(data, batch_, depth_, rows_, cols_) {}

    __host__ __device__ int batch() const { return batch_; }
    __host__ __device__ int depth() const { return depth_; }
    __host__ __device__ int rows() const { return rows_; }
    __host__ __device__ int cols() const { return cols_; }
    __host__ __device__ size_t numel() const { return size_t(batch()) * depth() * rows() * cols(); }
    __host__ __device__ T& operator()(int row, int col) const { return raw_ptr[size_t(row) * cols() + col]; }
};

template <class G>
concept all_gl = requires { typename G::identifier; } && std::same_as<typename G::identifier, layout_identifier>;

// A complex layout: two layouts of one type.
template <all_gl G>
struct cgl {
    using component = G;
    using dtype = typename G::dtype;
    component real, imag;
};

// The threads of a block load and store a tile together; elements outside of the layout are 0.
template <class Tile, all_gl G>
__device__ void load(Tile& into, const G& from, int row, int col) {
    for (int i = threadIdx.x; i < Tile::size; i += blockDim.x) {
        const int r = row + i / Tile::cols, c = col + i % Tile::cols;
        into.data[i] = r < from.rows() && c < from.cols() ? from(r, c) : typename Tile::dtype(0.0f);
    }
}
template <class Tile, all_gl G>
__device__ void store(const G& into, const Tile& from, int row, int col) {
    for (int i = threadIdx.x; i < Tile::size; i += blockDim.x) {
        const int r = row + i / Tile::cols, c = col + i % Tile::cols;
        if (r < into.rows() && c < into.cols()) into(r, c) = from.data[i];
    }
}

}  // namespace mittens
