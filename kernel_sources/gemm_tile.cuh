// One block's tile of a matrix product C = A * B, row-major, any M, N and K. A block of 256 threads computes a tile of
// 128 x 128 in steps along K. While it computes on one stage of shared memory, the next tiles of A and B are in flight
// through registers to the other stage.
#pragma once

#include <tkjit/gl.h>
#include <tkjit/ldmatrix.cuh>
#include <tkjit/mma.cuh>
#include <tkjit/shared_memory.cuh>

constexpr int kThreads = 256;
constexpr int kTileM = 128, kTileN = 128;
constexpr int kVectorBytes = 16;  // the widest load

template <typename T>
struct Tile {
    static constexpr int k = sizeof(T) == 2 ? 32 : 16;
    static constexpr int vector = kVectorBytes / int(sizeof(T));
    // the padding staggers rows over the banks, and keeps each row aligned for the widest load
    static constexpr int a_stride = k + vector;
    static constexpr int b_stride = kTileN + vector;
    static constexpr int a_elements = kTileM * a_stride;
    static constexpr int stage_elements = a_elements + k * b_stride;
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

    __device__ void store(T* tile, int stride) const {
        for (int i = 0; i < vectors; ++i) {
            const int index = threadIdx.x + i * kThreads;
            T* target = tile + index / vectors_a_row * stride + index % vectors_a_row * Tile<T>::vector;
            *reinterpret_cast<Vector<T>*>(target) = held[i];
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

    __device__ void multiply(const T* a, const T* b) {
        const int lane = threadIdx.x % 32;
        for (int k = 0; k < Tile<T>::k; k += 16) {
            uint32_t a_fragment[m_fragments][4], b_fragment[n_fragments / 2][4];
            for (int m = 0; m < m_fragments; ++m)
                tkjit::ldmatrix_x4(a_fragment[m],
                                   a + (warp_row() + m * 16 + lane % 16) * Tile<T>::a_stride + k + lane / 16 * 8);
            for (int n = 0; n < n_fragments / 2; ++n)
                tkjit::ldmatrix_x4_trans(b_fragment[n],
                                         b + (k + lane % 16) * Tile<T>::b_stride + warp_col() + n * 16 + lane / 16 * 8);
            for (int m = 0; m < m_fragments; ++m)
                for (int n = 0; n < n_fragments; ++n) {
                    const uint32_t(&pair)[4] = b_fragment[n / 2];
                    const uint32_t b_half[2] = {pair[n % 2 * 2], pair[n % 2 * 2 + 1]};
                    tkjit::mma_m16n8k16<T>(sum[m][n], a_fragment[m], b_half, sum[m][n]);
                }
        }
    }

    // A lane holds two neighbours in a row, and two more eight rows further down.
    template <typename Store>
    __device__ void for_each(Store&& store) const {
        const int lane = threadIdx.x % 32;
        for (int m = 0; m < m_fragments; ++m)
            for (int n = 0; n < n_fragments; ++n)
                for (int i = 0; i < 4; ++i)
                    store(warp_row() + m * 16 + lane / 4 + i / 2 * 8, warp_col() + n * 8 + lane % 4 * 2 + i % 2, sum[m][n][i]);
    }
};

// float32 uses FMA: 16 x 16 threads, each with four patches of 4 x 4, which are 64 apart so that a warp reads neighbours.
template <>
struct Accumulator<float> {
    static constexpr int patch = 4, side = 2 * patch;
    float sum[side][side] = {};

    __device__ static int offset(int thread, int i) { return i / patch * 64 + thread * patch + i % patch; }
    __device__ static int row(int i) { return offset(threadIdx.x / 16, i); }
    __device__ static int col(int j) { return offset(threadIdx.x % 16, j); }

    __device__ void multiply(const float* a, const float* b) {
        for (int k = 0; k < Tile<float>::k; ++k) {
            float a_column[side], b_row[side];
            for (int i = 0; i < side; ++i) a_column[i] = a[row(i) * Tile<float>::a_stride + k];
            for (int j = 0; j < side; ++j) b_row[j] = b[k * Tile<float>::b_stride + col(j)];
            for (int i = 0; i < side; ++i)
                for (int j = 0; j < side; ++j) sum[i][j] += a_column[i] * b_row[j];
        }
    }

    template <typename Store>
    __device__ void for_each(Store&& store) const {
        for (int i = 0; i < side; ++i)
            for (int j = 0; j < side; ++j) store(row(i), col(j), sum[i][j]);
    }
};

// Computes the block's tile at (first_row, first_col) of A * B, where A is m x k and B is k x n. `stages` are two stages
// of shared memory.
template <typename T>
__device__ Accumulator<T> multiply_tile(T* stages, const T* a_matrix, const T* b_matrix, int m, int n, int k, int first_row,
                                        int first_col) {
    using tile = Tile<T>;
    const int steps = (k + tile::k - 1) / tile::k;

    Accumulator<T> accumulator;
    TileLoad<T, kTileM, tile::k> a_load;
    TileLoad<T, tile::k, kTileN> b_load;
    const auto fetch = [&](int step) {
        a_load.fetch(a_matrix, m, k, first_row, step * tile::k);
        b_load.fetch(b_matrix, k, n, step * tile::k, first_col);
    };

    if (steps > 0) fetch(0);
    for (int step = 0; step < steps; ++step) {
        T* a = stages + step % 2 * tile::stage_elements;
        T* b = a + tile::a_elements;
        a_load.store(a, tile::a_stride);
        b_load.store(b, tile::b_stride);
        __syncthreads();  // the stage is full, and no thread reads the other one any more
        if (step + 1 < steps) fetch(step + 1);
        accumulator.multiply(a, b);
    }
    return accumulator;
}

// Computes the block's tile of C, with one block for each tile. Tiles are numbered row by row along the grid's x,
// because only x is large enough for any M.
template <typename T, typename Matrix>
__device__ void multiply(T* stages, const Matrix& a, const Matrix& b, const Matrix& c) {
    const int m = c.rows(), n = c.cols(), tiles_in_row = (n + kTileN - 1) / kTileN;
    const int first_row = blockIdx.x / tiles_in_row * kTileM, first_col = blockIdx.x % tiles_in_row * kTileN;
    const Accumulator<T> tile = multiply_tile(stages, a.raw_ptr, b.raw_ptr, m, n, a.cols(), first_row, first_col);
    tile.for_each([&](int row, int col, float value) {
        if (first_row + row < m && first_col + col < n) c(first_row + row, first_col + col) = T(value);
    });
}
