// One block's tile of a matrix product C = A * B, row-major, any M, N and K. B is stored as K x N, or as N x K if
// `b_is_transposed`. A block of 256 threads computes a tile of 128 x 128 in steps along K. While it computes on one stage of
// shared memory, the next tiles of A and B are in flight through registers to the other stage.
#pragma once

#include <tkjit/gl.h>
#include <tkjit/ldmatrix.cuh>
#include <tkjit/mma.cuh>
#include <tkjit/shared_memory.cuh>

#include "gemm_split.cuh"

constexpr int kThreads = 256;
constexpr int kTileM = 128, kTileN = 128;
constexpr int kVectorBytes = 16;  // the widest load

template <typename T, bool b_is_transposed = false>
struct Tile {
    static constexpr int k = sizeof(T) == 2 ? 32 : 16;
    static constexpr int vector = kVectorBytes / int(sizeof(T));
    // float32 is stored with K as its rows, so that a thread loads several elements of a row of A at once
    static constexpr bool k_is_rows_of_a = sizeof(T) == 4, k_is_rows_of_b = sizeof(T) == 4 || !b_is_transposed;
    // the padding staggers rows over the banks, and keeps each row aligned for the widest load
    static constexpr int a_stride = (k_is_rows_of_a ? kTileM : k) + vector;
    static constexpr int b_stride = (k_is_rows_of_b ? kTileN : k) + vector;
    static constexpr int a_elements = (k_is_rows_of_a ? k : kTileM) * a_stride;
    static constexpr int stage_elements = a_elements + (k_is_rows_of_b ? k : kTileN) * b_stride;
};

template <typename T>
struct alignas(kVectorBytes) Vector {
    T element[Tile<T>::vector];
};

// A thread's share of a Rows x Cols tile, held in registers between global and shared memory.
template <typename T, int Rows, int Cols>
struct TileLoad {
    static constexpr int vectors_a_row = Cols / Tile<T>::vector;
    static constexpr int vectors = Rows * vectors_a_row / kThreads;
    Vector<T> held[vectors];

    // Elements outside the matrix are zero.
    __device__ void fetch(const T* matrix, int rows, int cols, int first_row, int first_col) {
        for (int i = 0; i < vectors; ++i) {
            const int index = threadIdx.x + i * kThreads;
            const int row = first_row + index / vectors_a_row;
            const int col = first_col + index % vectors_a_row * Tile<T>::vector;
            const T* source = matrix + size_t(row) * cols + col;
            const bool whole = row < rows && col + Tile<T>::vector <= cols;
            if (whole && reinterpret_cast<size_t>(source) % kVectorBytes == 0) {
                held[i] = *reinterpret_cast<const Vector<T>*>(source);
            } else {
                for (int j = 0; j < Tile<T>::vector; ++j)
                    held[i].element[j] = row < rows && col + j < cols ? source[j] : T(0.f);
            }
        }
    }

    template <bool is_transposed = false>
    __device__ void store(T* tile, int stride) const {
        for (int i = 0; i < vectors; ++i) {
            const int index = threadIdx.x + i * kThreads;
            const int row = index / vectors_a_row, col = index % vectors_a_row * Tile<T>::vector;
            if constexpr (is_transposed)
                for (int j = 0; j < Tile<T>::vector; ++j) tile[(col + j) * stride + row] = held[i].element[j];
            else
                *reinterpret_cast<Vector<T>*>(tile + row * stride + col) = held[i];
        }
    }
};

// 16-bit types use tensor cores: 2 x 4 warps, each with 64 x 32 of the tile as 4 x 4 fragments of 16 x 8.
template <typename T>
struct Accumulator {
    static constexpr int m_fragments = 4, n_fragments = 4;
    float sum[m_fragments][n_fragments][4] = {};

    __device__ static int warp_row() { return threadIdx.x / 32 / 4 * 64; }
    __device__ static int warp_col() { return threadIdx.x / 32 % 4 * 32; }

    template <bool b_is_transposed>
    __device__ void multiply(const T* a, const T* b) {
        using tile = Tile<T, b_is_transposed>;
        const int lane = threadIdx.x % 32;
        for (int k = 0; k < Tile<T>::k; k += 16) {
            uint32_t a_fragment[m_fragments][4], b_fragment[n_fragments / 2][4];
            for (int m = 0; m < m_fragments; ++m)
                tkjit::ldmatrix_x4(a_fragment[m], a + (warp_row() + m * 16 + lane % 16) * tile::a_stride + k + lane / 16 * 8);
            for (int n = 0; n < n_fragments / 2; ++n) {
                const int col = warp_col() + n * 16;
                if constexpr (tile::k_is_rows_of_b)
                    tkjit::ldmatrix_x4_trans(b_fragment[n], b + (k + lane % 16) * tile::b_stride + col + lane / 16 * 8);
                else
                    tkjit::ldmatrix_x4(b_fragment[n],
                                       b + (col + lane / 16 * 8 + lane % 8) * tile::b_stride + k + lane / 8 % 2 * 8);
            }
            for (int m = 0; m < m_fragments; ++m)
                for (int n = 0; n < n_fragments; ++n) {
                    const uint32_t(&pair)[4] = b_fragment[n / 2];
                    const uint32_t b_half[2] = {pair[n % 2 * 2], pair[n % 2 * 2 + 1]};
                    tkjit::mma_m16n8k16<T>(sum[m][n], a_fragment[m], b_half, sum[m][n]);
                }
        }
    }

    // A lane holds two neighbours in a row, and two more eight rows further down.
    template <typename F>
    __device__ void for_each(F&& f) {
        const int lane = threadIdx.x % 32;
        for (int m = 0; m < m_fragments; ++m)
            for (int n = 0; n < n_fragments; ++n)
                for (int i = 0; i < 4; ++i)
                    f(warp_row() + m * 16 + lane / 4 + i / 2 * 8, warp_col() + n * 8 + lane % 4 * 2 + i % 2, sum[m][n][i]);
    }
};

// float32 uses FMA: 16 x 16 threads, each with four patches of 4 x 4, which are 64 apart so that a warp reads neighbours.
// A thread loads four elements of A or B at once.
template <>
struct Accumulator<float> {
    static constexpr int patch = 4, side = 2 * patch;
    float sum[side][side] = {};

    __device__ static int offset(int thread, int i) { return i / patch * 64 + thread * patch + i % patch; }
    __device__ static int row(int i) { return offset(threadIdx.x / 16, i); }
    __device__ static int col(int j) { return offset(threadIdx.x % 16, j); }

    template <bool b_is_transposed>
    __device__ void multiply(const float* a, const float* b) {
        for (int k = 0; k < Tile<float>::k; ++k) {
            float a_column[side], b_row[side];
            for (int i = 0; i < side; i += patch) {
                *reinterpret_cast<float4*>(a_column + i) = *reinterpret_cast<const float4*>(a + k * Tile<float>::a_stride + row(i));
                *reinterpret_cast<float4*>(b_row + i) = *reinterpret_cast<const float4*>(b + k * Tile<float>::b_stride + col(i));
            }
            for (int i = 0; i < side; ++i)
                for (int j = 0; j < side; ++j) sum[i][j] += a_column[i] * b_row[j];
        }
    }

    template <typename F>
    __device__ void for_each(F&& f) {
        for (int i = 0; i < side; ++i)
            for (int j = 0; j < side; ++j) f(row(i), col(j), sum[i][j]);
    }
};

/// The number of steps that a tile takes along K.
template <typename T>
__host__ __device__ constexpr int steps_of(int k) {
    return (k + Tile<T>::k - 1) / Tile<T>::k;
}

// Computes the block's tile at (first_row, first_col) of A * B, where C is m x n, in the steps along K from `first_step` to
// before `last_step`. `stages` are two stages of shared memory.
template <bool b_is_transposed = false, typename T>
__device__ Accumulator<T> multiply_tile(T* stages, const T* a_matrix, const T* b_matrix, int m, int n, int k, int first_row,
                                        int first_col, int first_step, int last_step) {
    using tile = Tile<T, b_is_transposed>;
    Accumulator<T> accumulator;
    TileLoad<T, kTileM, tile::k> a_load;
    TileLoad<T, b_is_transposed ? kTileN : tile::k, b_is_transposed ? tile::k : kTileN> b_load;
    const auto fetch = [&](int step) {
        a_load.fetch(a_matrix, m, k, first_row, step * tile::k);
        if constexpr (b_is_transposed) b_load.fetch(b_matrix, n, k, first_col, step * tile::k);
        else b_load.fetch(b_matrix, k, n, step * tile::k, first_col);
    };

    if (first_step < last_step) fetch(first_step);
    for (int step = first_step; step < last_step; ++step) {
        T* a = stages + step % 2 * tile::stage_elements;
        T* b = a + tile::a_elements;
        a_load.template store<tile::k_is_rows_of_a>(a, tile::a_stride);
        b_load.template store<b_is_transposed && tile::k_is_rows_of_b>(b, tile::b_stride);
        __syncthreads();  // the stage is full, and no thread reads the other one any more
        if (step + 1 < last_step) fetch(step + 1);
        accumulator.template multiply<b_is_transposed>(a, b);
    }
    return accumulator;
}

/// The launch parameters of `multiply`, which specs read.
template <typename T, bool b_is_transposed = false>
struct TileLaunch {
    static constexpr int threads = kThreads;
    static constexpr size_t shared_bytes = 2 * Tile<T, b_is_transposed>::stage_elements * sizeof(T);
    static size_t blocks(size_t m, size_t n, size_t splits) {
        return (m + kTileM - 1) / kTileM * ((n + kTileN - 1) / kTileN) * splits;
    }
};

// Computes the block's split of a tile of C, with one block for each. Tiles are numbered row by row along the grid's x,
// because only x is large enough for any M. `finish(sum, row, col)` makes an element of C.
template <bool b_is_transposed = false, typename T, typename Problem, typename Finish>
__device__ void multiply(T* stages, const Problem& g, Finish finish) {
    const int m = g.c.batch() * g.c.depth() * g.c.rows(), n = g.c.cols(), k = g.a.cols(), splits = g.splits;
    const int tiles_in_row = (n + kTileN - 1) / kTileN, steps = steps_of<T>(k);
    const Split split{int(blockIdx.x / splits), int(blockIdx.x % splits), splits};
    const int first_row = split.tile / tiles_in_row * kTileM, first_col = split.tile % tiles_in_row * kTileN;
    const auto begin = [&](int number) { return int(int64_t(steps) * number / splits); };
    Accumulator<T> sums = multiply_tile<b_is_transposed>(stages, g.a.raw_ptr, g.b.raw_ptr, m, n, k, first_row, first_col,
                                                         begin(split.number), begin(split.number + 1));
    if (splits > 1) {
        __shared__ bool is_last;
        constexpr int count = kTileM * kTileN / kThreads;
        auto& all = reinterpret_cast<float(&)[count]>(sums.sum);
        const auto sync = [] { __syncthreads(); };
        if (!add_splits<kThreads>(g.partial, split, threadIdx.x, is_last, all, {true, true}, sync)) return;
    }
    sums.for_each([&](int row, int col, float& sum) {
        row += first_row, col += first_col;
        if (row < m && col < n) g.c(row, col) = T(finish(sum, row, col));
    });
}
