// One block's tile of a matrix product C = A * B, for any M, N and K. A is stored as M x K, or as K x M if `a_is_transposed`;
// B is stored as K x N, or as N x K if `b_is_transposed`. A block of 256 threads computes a tile of 128 x 128 in steps along
// K. While it computes on one stage of shared memory, the next tiles of A and B are in flight through registers to the other
// stage. Elements of 8 bits are converted to `__half`, in which they are exact, and those of float32 to tf32 if the stages have
// this type.
#pragma once

#include <tkjit/gl.h>
#include <tkjit/ldmatrix.cuh>
#include <tkjit/mma.cuh>
#include <tkjit/shared_memory.cuh>
#include <tkjit/strided.h>
#include <tkjit/tf32.cuh>

#include "gemm_gate.cuh"
#include "gemm_scales.cuh"
#include "gemm_split.cuh"

constexpr int kThreads = 256;
constexpr int kTileM = 128, kTileN = 128;
constexpr int kVectorBytes = 16;  // the widest load

template <typename T, bool a_is_transposed = false, bool b_is_transposed = false>
struct Tile {
    static constexpr int k = sizeof(T) == 2 ? 32 : 16;
    static constexpr int vector = kVectorBytes / int(sizeof(T));
    // float32 is stored with K as its rows, so that a thread loads several elements of a row of A at once
    static constexpr bool k_is_rows_of_a = std::is_same_v<T, float> || a_is_transposed;
    static constexpr bool k_is_rows_of_b = std::is_same_v<T, float> || !b_is_transposed;
    // the padding staggers rows over the banks, and keeps each row aligned for the widest load
    static constexpr int padding_of_k = std::is_same_v<T, tkjit::tf32> ? 8 : vector;
    static constexpr int a_stride = k_is_rows_of_a ? kTileM + padding_of_k : k + vector;
    static constexpr int b_stride = k_is_rows_of_b ? kTileN + padding_of_k : k + vector;
    static constexpr int a_elements = (k_is_rows_of_a ? k : kTileM) * a_stride;
    static constexpr int stage_elements = a_elements + (k_is_rows_of_b ? k : kTileN) * b_stride;
};

template <typename T, int Size>
struct alignas(Size * sizeof(T)) Vector {
    T element[Size];
};

/// A matrix in global memory, as it is stored. `row_stride` and `step` are the distances between rows and between the elements
/// of a row.
template <typename T>
struct Stored {
    const T* data;
    int rows, cols;
    int64_t row_stride, step;

    __device__ bool has_row(int row) const { return row < rows; }
    __device__ const T* start_of(int row) const { return data + row * row_stride; }
};

/// Two matrices of the same shape, interleaved: `Group` rows of the first, then `Group` rows of the second, and so on.
template <typename T, int Group>
struct StoredPair {
    Stored<T> first, second;
    int cols = first.cols;
    int64_t step = first.step;

    __device__ static int row_in_one(int row) { return row / (2 * Group) * Group + row % Group; }
    __device__ bool has_row(int row) const { return row_in_one(row) < first.rows; }
    __device__ const T* start_of(int row) const { return (row / Group % 2 ? second : first).start_of(row_in_one(row)); }
};

/// A matrix that is stored row by row. Its leading dimensions count as rows.
template <bool is_transposed, typename T, int Batch, int Depth, int Rows, int Cols>
__device__ Stored<T> stored(const tkjit::gl<T, Batch, Depth, Rows, Cols>& matrix, int) {
    return {matrix.raw_ptr, matrix.batch() * matrix.depth() * matrix.rows(), matrix.cols(), matrix.cols(), 1};
}

/// A matrix with any strides, or one of several. If `is_transposed`, its columns are the rows of the result.
template <bool is_transposed, typename T, int Rank, typename Axes>
__device__ Stored<T> stored(const tkjit::strided<T, Rank, Axes>& matrix, int number) {
    constexpr int rows = is_transposed ? Rank - 1 : Rank - 2, cols = is_transposed ? Rank - 2 : Rank - 1;
    const T* const data = matrix.raw_ptr + (Rank == 3 ? number * matrix.stride(0) : 0);
    return {data, matrix.extent(rows), matrix.extent(cols), matrix.stride(rows), matrix.stride(cols)};
}

// A thread's share of a Rows x Cols tile, held in registers between global and shared memory.
template <typename T, int Rows, int Cols>
struct TileLoad {
    static constexpr int vector = Tile<T>::vector;
    static constexpr int vectors_a_row = Cols / vector;
    static constexpr int vectors = Rows * vectors_a_row / kThreads;
    Vector<T, vector> held[vectors];

    // Elements outside the matrix are zero.
    template <typename Matrix>
    __device__ void fetch(const Matrix& matrix, int first_row, int first_col) {
        for (int i = 0; i < vectors; ++i) {
            const int index = threadIdx.x + i * kThreads;
            const int row = first_row + index / vectors_a_row;
            const int col = first_col + index % vectors_a_row * vector;
            const auto* source = matrix.start_of(row) + col * matrix.step;
            using Source = std::remove_cvref_t<decltype(*source)>;
            const bool whole = matrix.has_row(row) && col + vector <= matrix.cols && matrix.step == 1;
            if (whole && reinterpret_cast<size_t>(source) % sizeof(Vector<Source, vector>) == 0) {
                const auto loaded = *reinterpret_cast<const Vector<Source, vector>*>(source);
                for (int j = 0; j < vector; ++j) held[i].element[j] = T(loaded.element[j]);
            } else {
                for (int j = 0; j < vector; ++j) {
                    const bool inside = matrix.has_row(row) && col + j < matrix.cols;
                    held[i].element[j] = inside ? T(source[j * matrix.step]) : T(0.f);
                }
            }
        }
    }

    template <bool is_transposed = false>
    __device__ void store(T* tile, int stride) const {
        for (int i = 0; i < vectors; ++i) {
            const int index = threadIdx.x + i * kThreads;
            const int row = index / vectors_a_row, col = index % vectors_a_row * vector;
            if constexpr (is_transposed)
                for (int j = 0; j < vector; ++j) tile[(col + j) * stride + row] = held[i].element[j];
            else
                *reinterpret_cast<Vector<T, vector>*>(tile + row * stride + col) = held[i];
        }
    }
};

// 16-bit types and tf32 use tensor cores: 2 x 4 warps, each with 64 x 32 of the tile as 4 x 4 fragments of 16 x 8.
template <typename T>
struct Accumulator {
    static constexpr int m_fragments = 4, n_fragments = 4;
    static constexpr int group = 16;  // adjacent columns of one matrix of a pair; as many of the other follow
    float sum[m_fragments][n_fragments][4] = {};

    __device__ static int warp_row() { return threadIdx.x / 32 / 4 * 64; }
    __device__ static int warp_col() { return threadIdx.x / 32 % 4 * 32; }

    template <class tile>
    __device__ void multiply(const T* a, const T* b) {
        for (int k = 0; k < Tile<T>::k; k += 2 * half) {
            uint32_t a_fragment[m_fragments][4], b_fragment[n_fragments / 2][4];
            for (int m = 0; m < m_fragments; ++m) load_a<tile>(a_fragment[m], a, warp_row() + m * 16, k);
            for (int n = 0; n < n_fragments / 2; ++n) load_b<tile>(b_fragment[n], b, warp_col() + n * 16, k);
            for (int m = 0; m < m_fragments; ++m)
                for (int n = 0; n < n_fragments; ++n) {
                    const uint32_t(&pair)[4] = b_fragment[n / 2];
                    const uint32_t b_half[2] = {pair[n % 2 * 2], pair[n % 2 * 2 + 1]};
                    if constexpr (is_tf32) tkjit::mma_m16n8k8<T>(sum[m][n], a_fragment[m], b_half, sum[m][n]);
                    else tkjit::mma_m16n8k16<T>(sum[m][n], a_fragment[m], b_half, sum[m][n]);
                }
        }
    }

    // A lane holds two neighbours in a row, and two more eight rows further down. The loops are unrolled so that the sums
    // stay in registers.
    template <typename F>
    __device__ void for_each(F&& f) {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int m = 0; m < m_fragments; ++m)
#pragma unroll
            for (int n = 0; n < n_fragments; ++n)
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    f(warp_row() + m * 16 + lane / 4 + i / 2 * 8, warp_col() + n * 8 + lane % 4 * 2 + i % 2, sum[m][n][i]);
    }

    // The same for the sums of a pair of matrices, whose columns `col` counts.
    template <typename F>
    __device__ void for_each_pair(F&& f) {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int m = 0; m < m_fragments; ++m)
#pragma unroll
            for (int n = 0; n < n_fragments / 2; ++n)
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    f(warp_row() + m * 16 + lane / 4 + i / 2 * 8, warp_col() / 2 + n * 8 + lane % 4 * 2 + i % 2, sum[m][n][i],
                      sum[m][n + n_fragments / 2][i]);
    }

private:
    static constexpr bool is_tf32 = std::is_same_v<T, tkjit::tf32>;
    static constexpr int half = 16 / int(sizeof(T));  // half of the depth of a product

    // 16 rows of A at `row`.
    template <class tile>
    __device__ static void load_a(uint32_t (&fragment)[4], const T* a, int row, int k) {
        const int lane = threadIdx.x % 32;
        if constexpr (!tile::k_is_rows_of_a) {
            tkjit::ldmatrix_x4(fragment, a + (row + lane % 16) * tile::a_stride + k + lane / 16 * half);
        } else if constexpr (is_tf32) {  // ldmatrix transposes elements of 16 bits only
            for (int i = 0; i < 4; ++i)
                fragment[i] = a[(k + lane % 4 + i / 2 * half) * tile::a_stride + row + lane / 4 + i % 2 * 8].bits;
        } else {
            const T* const from = a + (k + lane / 16 * 8 + lane % 8) * tile::a_stride + row + lane / 8 % 2 * 8;
            tkjit::ldmatrix_x4_trans(fragment, from);
        }
    }

    // 16 columns of B at `col`.
    template <class tile>
    __device__ static void load_b(uint32_t (&fragment)[4], const T* b, int col, int k) {
        const int lane = threadIdx.x % 32;
        if constexpr (!tile::k_is_rows_of_b) {
            const T* const from = b + (col + lane / 16 * 8 + lane % 8) * tile::b_stride + k + lane / 8 % 2 * half;
            tkjit::ldmatrix_x4(fragment, from);
        } else if constexpr (is_tf32) {
            for (int i = 0; i < 4; ++i)
                fragment[i] = b[(k + lane % 4 + i % 2 * half) * tile::b_stride + col + lane / 4 + i / 2 * 8].bits;
        } else {
            tkjit::ldmatrix_x4_trans(fragment, b + (k + lane % 16) * tile::b_stride + col + lane / 16 * 8);
        }
    }
};

// float32 uses FMA: 16 x 16 threads, each with four patches of 4 x 4, which are 64 apart so that a warp reads neighbours.
// A thread loads four elements of A or B at once.
template <>
struct Accumulator<float> {
    static constexpr int patch = 4, side = 2 * patch;
    static constexpr int group = 64;
    float sum[side][side] = {};

    __device__ static int offset(int thread, int i) { return i / patch * 64 + thread * patch + i % patch; }
    __device__ static int row(int i) { return offset(threadIdx.x / 16, i); }
    __device__ static int col(int j) { return offset(threadIdx.x % 16, j); }

    template <class tile>
    __device__ void multiply(const float* a, const float* b) {
        for (int k = 0; k < tile::k; ++k) {
            float a_column[side], b_row[side];
            for (int i = 0; i < side; i += patch) {
                *reinterpret_cast<float4*>(a_column + i) = *reinterpret_cast<const float4*>(a + k * tile::a_stride + row(i));
                *reinterpret_cast<float4*>(b_row + i) = *reinterpret_cast<const float4*>(b + k * tile::b_stride + col(i));
            }
            for (int i = 0; i < side; ++i)
                for (int j = 0; j < side; ++j) sum[i][j] += a_column[i] * b_row[j];
        }
    }

    template <typename F>
    __device__ void for_each(F&& f) {
#pragma unroll
        for (int i = 0; i < side; ++i)
#pragma unroll
            for (int j = 0; j < side; ++j) f(row(i), col(j), sum[i][j]);
    }

    template <typename F>
    __device__ void for_each_pair(F&& f) {
#pragma unroll
        for (int i = 0; i < side; ++i)
#pragma unroll
            for (int j = 0; j < patch; ++j) f(row(i), col(j), sum[i][j], sum[i][j + patch]);
    }
};

/// The number of steps that a tile takes along K.
template <typename T>
__host__ __device__ constexpr int steps_of(int k) {
    return (k + Tile<T>::k - 1) / Tile<T>::k;
}

// Computes the block's tile at (first_row, first_col) of A * B in the steps along K from `first_step` to before `last_step`.
// `stages` are two stages of shared memory.
template <bool a_is_transposed = false, bool b_is_transposed = false, typename T, typename MatrixA, typename MatrixB>
__device__ Accumulator<T> multiply_tile(T* stages, const MatrixA& a_matrix, const MatrixB& b_matrix,
                                        int first_row, int first_col, int first_step, int last_step) {
    using tile = Tile<T, a_is_transposed, b_is_transposed>;
    Accumulator<T> accumulator;
    TileLoad<T, a_is_transposed ? tile::k : kTileM, a_is_transposed ? kTileM : tile::k> a_load;
    TileLoad<T, b_is_transposed ? kTileN : tile::k, b_is_transposed ? tile::k : kTileN> b_load;
    const auto fetch = [&](int step) {
        if constexpr (a_is_transposed) a_load.fetch(a_matrix, step * tile::k, first_row);
        else a_load.fetch(a_matrix, first_row, step * tile::k);
        if constexpr (b_is_transposed) b_load.fetch(b_matrix, first_col, step * tile::k);
        else b_load.fetch(b_matrix, step * tile::k, first_col);
    };

    if (first_step < last_step) fetch(first_step);
    for (int step = first_step; step < last_step; ++step) {
        T* a = stages + step % 2 * tile::stage_elements;
        T* b = a + tile::a_elements;
        a_load.template store<tile::k_is_rows_of_a && !a_is_transposed>(a, tile::a_stride);
        b_load.template store<tile::k_is_rows_of_b && b_is_transposed>(b, tile::b_stride);
        __syncthreads();  // the stage is full, and no thread reads the other one any more
        if (step + 1 < last_step) fetch(step + 1);
        accumulator.template multiply<tile>(a, b);
    }
    return accumulator;
}

/// The launch parameters of `multiply`, which specs read.
template <typename T, bool a_is_transposed = false, bool b_is_transposed = false>
struct TileLaunch {
    static constexpr int threads = kThreads;
    static constexpr size_t shared_bytes = 2 * Tile<T, a_is_transposed, b_is_transposed>::stage_elements * sizeof(T);
    static size_t blocks(size_t m, size_t n, size_t splits, size_t matrices = 1) {
        return (m + kTileM - 1) / kTileM * ((n + kTileN - 1) / kTileN) * splits * matrices;
    }
};

/// B as it is stored, or a pair of them, which are stored as N x K.
template <typename T, typename Problem>
__device__ auto stored_b(const Problem& g, int number) {
    const auto b = stored<Problem::b_is_transposed>(g.b, number);
    if constexpr (is_gated<Problem>)
        return StoredPair<typename decltype(g.b)::dtype, Accumulator<T>::group>{b, stored<true>(g.up, number)};
    else return b;
}

// A `Problem` has the matrices `a`, `b` and `c`, the `partial` sums of `splits`, and constants `a_is_transposed` and
// `b_is_transposed`. It may have a second B, `up`; then `finish(gate, up, number, row, col)` makes an element of C.
//
// Computes the block's split of a tile of C, with one block for each. Tiles are numbered row by row along the grid's x,
// because only x is large enough for any M. `finish(sum, number, row, col)` makes an element of the matrix `number` of C.
template <typename T, typename Problem, typename Finish>
__device__ void multiply(T* stages, const Problem& g, Finish finish) {
    constexpr bool a_is_transposed = Problem::a_is_transposed, b_is_transposed = Problem::b_is_transposed;
    const int splits = g.splits;
    const Split split{int(blockIdx.x / splits), int(blockIdx.x % splits), splits};
    const auto of_first = stored<a_is_transposed>(g.a, 0);
    const int m = a_is_transposed ? of_first.cols : of_first.rows, k = a_is_transposed ? of_first.rows : of_first.cols;
    constexpr int cols_of_tile = is_gated<Problem> ? kTileN / 2 : kTileN;
    const int n = g.c.cols(), across = (n + cols_of_tile - 1) / cols_of_tile, tiles = (m + kTileM - 1) / kTileM * across;
    const int number = split.tile / tiles, tile = split.tile % tiles;
    const int first_row = tile / across * kTileM, first_col = tile % across * kTileN;  // of B
    constexpr int unit = scales_blocks<Finish> ? kScaledDepth / Tile<T>::k : 1;  // steps that are not split
    const int steps = steps_of<T>(k), units = (steps + unit - 1) / unit;
    const auto begin = [&](int of_split) { return min(steps, unit * int(int64_t(units) * of_split / splits)); };
    const int first_step = begin(split.number), last_step = begin(split.number + 1);
    const auto multiply_steps = [&](int first, int last) {
        return multiply_tile<a_is_transposed, b_is_transposed>(stages, stored<a_is_transposed>(g.a, number),
                                                               stored_b<T>(g, number), first_row, first_col, first, last);
    };
    Accumulator<T> sums;
    constexpr int count = kTileM * kTileN / kThreads;
    const auto flat = [](Accumulator<T>& one) -> auto& { return reinterpret_cast<float(&)[count]>(one.sum); };
    if constexpr (scales_blocks<Finish>) {
        for (int step = first_step; step < last_step; step += unit) {
            Accumulator<T> products = multiply_steps(step, min(step + unit, last_step));
            products.for_each([&](int row, int col, float& product) {
                product *= finish.row_scale(first_row + row, step / unit) * finish.col_scale(first_col + col, step / unit);
            });
#pragma unroll
            for (int i = 0; i < count; ++i) flat(sums)[i] += flat(products)[i];
        }
    } else {
        sums = multiply_steps(first_step, last_step);
    }
    if (splits > 1) {
        __shared__ bool is_last;
        const auto sync = [] { __syncthreads(); };
        if (!add_splits<kThreads>(g.partial, split, threadIdx.x, is_last, flat(sums), {true, true}, sync)) return;
    }
    using Result = typename decltype(g.c)::dtype;
    Result* const c = g.c.raw_ptr + size_t(number) * m * n;
    const auto store = [&](int row, int col, auto... sums) {
        row += first_row, col += tile % across * cols_of_tile;
        if (row < m && col < n) c[size_t(row) * n + col] = Result(finish(sums..., number, row, col));
    };
    if constexpr (is_gated<Problem>) sums.for_each_pair(store);
    else sums.for_each(store);
}
