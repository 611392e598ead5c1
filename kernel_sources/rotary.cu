// A block for each position of each sequence. A thread rotates eight pairs of elements at a time, or four adjacent pairs
// if the two elements of a pair are adjacent.
#include <tkjit/gl.h>
#include <tkjit/row.cuh>

/// Rotates (a, b) by the angle with this cosine and sine.
template <class T>
__device__ void rotate(T& a, T& b, float cos, float sin) {
    const float x = float(a), y = float(b);
    a = T(x * cos - y * sin);
    b = T(x * sin + y * cos);
}

template <typename T, bool interleaved>
__global__ void rotary(const __grid_constant__ Globals g) {
    constexpr int size = tkjit::Group<T>::size;
    const int sequence = g.x.depth(), heads = g.x.rows(), dim = g.x.cols(), half = g.cos.cols();
    const int64_t position = g.positions ? g.positions[blockIdx.x] : blockIdx.x % sequence;
    const bool is_known = position >= 0 && position < g.cos.rows();
    const float* const cos = g.cos.raw_ptr + position * half;
    const float* const sin = g.sin.raw_ptr + position * half;
    const auto cos_of = [&](int pair) { return is_known ? cos[pair] : NAN; };
    const auto sin_of = [&](int pair) { return is_known ? sin[pair] : NAN; };
    const size_t first = size_t(blockIdx.x) * heads * dim;

    const int extent = interleaved ? 2 * half : half, groups = (extent + size - 1) / size;  // of a head
    for (int i = threadIdx.x; i < heads * groups; i += blockDim.x) {
        const int col = i % groups * size;
        const size_t head = first + size_t(i / groups) * dim;
        const T* const x = g.x.raw_ptr + head;
        T* const y = g.y.raw_ptr + head;
        tkjit::Group<T> a = tkjit::load_group(x, col, extent);
        if constexpr (interleaved) {
#pragma unroll
            for (int j = 0; j < size; j += 2)
                if (col + j < extent) rotate(a.element[j], a.element[j + 1], cos_of((col + j) / 2), sin_of((col + j) / 2));
        } else {
            tkjit::Group<T> b = tkjit::load_group(x + half, col, extent);
#pragma unroll
            for (int j = 0; j < size; ++j)
                if (col + j < extent) rotate(a.element[j], b.element[j], cos_of(col + j), sin_of(col + j));
            tkjit::store_group(y + half, col, extent, b);
        }
        tkjit::store_group(y, col, extent, a);
    }
    const int rest = dim - 2 * half;  // elements that are not rotated
    for (int i = threadIdx.x; i < heads * rest; i += blockDim.x) {
        const size_t at = first + size_t(i / rest) * dim + 2 * half + i % rest;
        g.y.raw_ptr[at] = g.x.raw_ptr[at];
    }
}
