// Matrix products on Hopper, for elements of 16 or 8 bits or tf32, and any M, N and K.
//
// As many blocks as the GPU has multiprocessors take turns with the tiles of C. In each block, one warpgroup starts TMA
// copies of the tiles of A and B into a ring of stages in shared memory. Two others multiply them with wgmma, and store C
// with TMA while the first warpgroup already loads the next tile. A tile has 128 rows, 64 for each of the two, and up to 256
// columns; a product with at most 64 rows has tiles of 64 x 128, and each of the two computes half of the columns. A gated
// product always has 256 columns, 128 of each weight.
//
// In shared memory, all matrices are in boxes of 64 rows of 128 bytes. Where a box extends past A or B, it is filled with
// zeros. TMA needs adjacent elements in a row, and rows whose distance is a multiple of 16 bytes. For other matrices, the
// first warpgroup copies the elements of A and B itself, and the others store those of C.
//
// Source of the method: NVIDIA's CUTLASS, "Efficient GEMM in CUDA", on warp specialisation, persistent blocks and split K.
#pragma once

#include <tkjit/bulk_copy.cuh>
#include <tkjit/mbarrier.cuh>
#include <tkjit/named_barrier.cuh>
#include <tkjit/registers.cuh>
#include <tkjit/wgmma.cuh>

#include "gemm_gate.cuh"
#include "gemm_hopper_boxes.cuh"
#include "gemm_hopper_store.cuh"
#include "gemm_scales.cuh"
#include "gemm_split.cuh"

namespace hopper {

constexpr int kConsumers = 2, kThreads = kWarpgroup * (1 + kConsumers);
constexpr int kRows = kSide * kConsumers;
constexpr int kNarrow = 128;   // columns of a narrow tile
constexpr int kFewTiles = 66;  // half of the multiprocessors of an H100
constexpr int kTilesInColumn = 16;  // which are computed one after another, so that the L2 cache holds their rows of A

template <class T, int Cols, int Stages, class Result = T, class TypeB = T>
struct Ring {
    using dtype = T;
    using dtype_of_b = TypeB;  // differs from T only for 8-bit floats
    using result_dtype = Result;
    static constexpr int cols = Cols, size = Stages;
    static constexpr int box_bytes = kSide * kDepth<T> * sizeof(T);
    struct Stage {
        alignas(1024) T a[kConsumers][kSide * kDepth<T>];
        TypeB b[Cols / kSide][kSide * kDepth<T>];
    };
    Stage stages[Stages];
    alignas(1024) Result c[kConsumers][2][kSide * kDepth<Result>];  // on their way to C
    uint64_t full[Stages], empty[Stages];
    bool is_last;
};

/// The position in a ring: the stage, and the parity of the phase of its barriers.
template <class Ring>
struct Position {
    int stage = 0;
    uint32_t parity = 0;

    __device__ void advance() {
        if (++stage < Ring::size) return;
        stage = 0;
        parity ^= 1;
    }
};

/// A tile of a matrix, in rows and columns of tiles.
struct Place {
    int down, across;

    /// Several rows of tiles are numbered column by column.
    __device__ static Place of(int tile, int tiles_down, int tiles_across) {
        const int first = tile / (kTilesInColumn * tiles_across) * kTilesInColumn;  // row of tiles
        const int rows = min(kTilesInColumn, tiles_down - first), rest = tile - first * tiles_across;
        return {first + rest % rows, rest / rows};
    }
};

/// The rows of A and the columns of B in a tile.
struct TileShape {
    int rows, cols;
};

/// Chooses narrow tiles if wide ones would occupy at most half of the multiprocessors: twice as many blocks then need fewer
/// splits of K. The tiles of gated products stay wide, because each consumer needs boxes of both weights.
template <class Ring, bool gated>
__host__ __device__ TileShape tile_shape(size_t m, size_t n, size_t matrices) {
    const int rows = m > kSide ? kRows : kSide;
    const size_t wide = (m + rows - 1) / rows * ((n + Ring::cols - 1) / Ring::cols) * matrices;
    return {rows, !gated && (rows == kSide || wide <= kFewTiles) ? kNarrow : Ring::cols};
}

/// How the tiles of C and their splits are numbered.
template <class Ring>
struct Schedule {
    static constexpr int depth = kDepth<typename Ring::dtype>;
    int matrices, rows;
    TileShape shape;
    int cols_of_c, tiles_down, tiles_across, steps, splits;

    template <class Problem>
    __device__ explicit Schedule(const Problem& g)
        : matrices(g.c.matrices()),
          rows(g.c.rows()),
          shape(tile_shape<Ring, is_gated<Problem>>(rows, g.c.cols(), matrices)),
          cols_of_c(is_gated<Problem> ? shape.cols / 2 : shape.cols),
          tiles_down((rows + shape.rows - 1) / shape.rows),
          tiles_across((g.c.cols() + cols_of_c - 1) / cols_of_c),
          steps(((Problem::a_is_transposed ? g.a.rows() : g.a.cols()) + depth - 1) / depth),
          splits(g.splits) {}

    /// Finds the work `index`. Returns false if there is none.
    __device__ bool find(int index, Work& work) const {
        const int tiles = tiles_down * tiles_across, tile = index / splits, split = index % splits, number = tile / tiles;
        if (number >= matrices) return false;
        const Place place = Place::of(tile - number * tiles, tiles_down, tiles_across);
        const auto begin = [&](int split) { return int(int64_t(steps) * split / splits); };
        const int row = place.down * shape.rows, col = place.across * cols_of_c;
        work = {number, row, col, rows, begin(split), begin(split + 1), {tile, split, splits}};
        return true;
    }
};

/// The launch parameters, which specs read.
template <class Ring, bool gated = false>
struct Launch {
    static constexpr int threads = kThreads;
    static constexpr size_t shared_bytes = sizeof(Ring);

    static size_t blocks(size_t m, size_t n, size_t splits, size_t matrices = 1) {
        const TileShape shape = tile_shape<Ring, gated>(m, n, matrices);
        return blocks_for((m + shape.rows - 1) / shape.rows * ((n + shape.cols - 1) / shape.cols) * splits * matrices);
    }

    /// At most one block for each multiprocessor.
    static size_t blocks_for(size_t tiles) {
        int device = 0, multiprocessors = 0;
        cudaGetDevice(&device);
        cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
        return multiprocessors > 0 && tiles > size_t(multiprocessors) ? multiprocessors : tiles;
    }
};

// A `Problem` below has the matrices `a`, `b` and `c` in boxes, and the constants `a_is_transposed`, whether A is stored as
// K x M, and `b_is_transposed`, whether B is stored as N x K. It may have a second B, `up`. If there are splits, it has their
// `partial` sums.

/// Whether the first warpgroup copies A and B without TMA.
template <class Problem>
__device__ bool copies_by_hand(const Problem& g) {
    if constexpr (is_gated<Problem>)
        if (!g.up.is_mapped) return true;
    return !g.a.is_mapped || !g.b.is_mapped;
}

/// The matrix that a box of B is copied from.
template <class Problem>
__device__ const auto& matrix_of(const Problem& g, int box) {
    if constexpr (is_gated<Problem>)
        if (box % 2) return g.up;
    return g.b;
}

template <class Ring, class Problem, class Schedule>
__device__ void produce(Ring& ring, const Problem& g, Schedule schedule) {
    const bool by_hand = copies_by_hand(g);
    if (!by_hand && threadIdx.x != 0) return;
    const int boxes_of_a = schedule.shape.rows / kSide, boxes_of_b = schedule.shape.cols / kSide;
    constexpr int matrices_of_b = is_gated<Problem> ? 2 : 1;
    Position<Ring> at;
    Work work;
    for (int index = blockIdx.x; schedule.find(index, work); index += gridDim.x) {
        for (int step = work.first_step; step < work.last_step; ++step, at.advance()) {
            auto& stage = ring.stages[at.stage];
            uint64_t* const full = &ring.full[at.stage];
            const auto fill = [&](auto& box, const auto& matrix, int row, int col, bool is_transposed) {
                const int stored_row = is_transposed ? col : row, stored_col = is_transposed ? row : col;
                if (by_hand) copy_by_hand(box, matrix, work.number, stored_row, stored_col);
                else copy(box, matrix, work.number, stored_row, stored_col, full);
            };
            tkjit::mbarrier_wait(&ring.empty[at.stage], at.parity ^ 1);  // the first round does not wait
            if (!by_hand) tkjit::mbarrier_arrive_expect_bytes(full, (boxes_of_a + boxes_of_b) * Ring::box_bytes);
            for (int box = 0; box < boxes_of_a; ++box)
                fill(stage.a[box], g.a, work.row + box * kSide, step * schedule.depth, Problem::a_is_transposed);
            for (int box = 0; box < boxes_of_b; ++box)
                fill(stage.b[box], matrix_of(g, box), step * schedule.depth, work.col + box / matrices_of_b * kSide,
                     Problem::b_is_transposed);
            if (!by_hand) continue;
            tkjit::fence_async_proxy();  // because wgmma reads these writes
            tkjit::mbarrier_arrive(full);
        }
    }
}

/// Adds the products of one block of K to the sums, times their scales.
template <int Count, class Finish>
__device__ void add_scaled(float (&sums)[Count], const float (&products)[Count], const Finish& finish, int row, int first_col,
                           int block) {
    const float of_row[2] = {finish.row_scale(row, block), finish.row_scale(row + 8, block)};
#pragma unroll
    for (int first = 0; first < Count; first += 64) {  // 128 columns
        const float of_cols = finish.col_scale(first_col + 2 * first, block);
        const float scales[2] = {of_row[0] * of_cols, of_row[1] * of_cols};
#pragma unroll
        for (int i = first; i < min(first + 64, Count); ++i) sums[i] += scales[i / 2 % 2] * products[i];
    }
}

/// Multiplies a consumer's 64 x Cols elements of each tile, and stores its part of C. `finish(sum, number, row, col)` makes an
/// element of the matrix `number` of C; if there is a second B, `finish(gate, up, number, row, col)` makes it from two sums.
/// The consumers divide the rows of a tile between them, or its columns unless `divides_rows`.
template <int Cols, bool divides_rows, class Ring, class Problem, class Schedule, class Finish>
__device__ void consume(Ring& ring, const Problem& g, Schedule schedule, Finish finish) {
    using T = typename Ring::dtype;
    using TypeB = typename Ring::dtype_of_b;
    using Result = typename Ring::result_dtype;
    const int consumer = threadIdx.x / kWarpgroup - 1, lane = threadIdx.x % 32;
    const bool is_leader = threadIdx.x % kWarpgroup == 0;
    const int first_of_a = divides_rows ? consumer : 0, first_of_b = divides_rows ? 0 : consumer * Cols / kSide;
    constexpr int width = is_gated<Problem> ? Cols / 2 : Cols;  // columns of C
    static_assert(width % kSide == 0, "two boxes of B for each box of C");
    const int m = g.c.rows();
    int stores = 0;
    Position<Ring> at;
    Work work;
    for (int index = blockIdx.x; schedule.find(index, work); index += gridDim.x) {
        const int first_row = work.row + first_of_a * kSide, first_col = work.col + first_of_b * kSide * width / Cols;
        const int row = first_row + tkjit::wgmma_row(0);

        float sums[Cols / 2] = {};
        uint64_t* previous = nullptr;
        for (int step = work.first_step; step < work.last_step; ++step, at.advance()) {
            const auto& stage = ring.stages[at.stage];
            tkjit::mbarrier_wait(&ring.full[at.stage], at.parity);
            constexpr bool a_is_columns = Problem::a_is_transposed, b_is_columns = !Problem::b_is_transposed;
            const auto& box_of_a = stage.a[first_of_a];
            const auto& box_of_b = stage.b[first_of_b];
            const auto a = a_is_columns ? tkjit::wgmma_columns(box_of_a, Ring::box_bytes) : tkjit::wgmma_rows(box_of_a);
            const auto b = b_is_columns ? tkjit::wgmma_columns(box_of_b, Ring::box_bytes) : tkjit::wgmma_rows(box_of_b);
            const auto multiply = [&](auto& sums) {
                tkjit::wgmma_fence(sums);
#pragma unroll
                for (int k = 0; k < kDepth<T> / tkjit::wgmma_depth<T>; ++k) {
                    if constexpr (sizeof(T) == 1) tkjit::wgmma<Cols, T, TypeB>(sums, a.advanced(k), b.advanced(k));
                    else tkjit::wgmma<Cols, T, b_is_columns, a_is_columns>(sums, a.advanced(k), b.advanced(k));
                }
                tkjit::wgmma_commit();
            };
            if constexpr (scales_blocks<Finish>) {
                float products[Cols / 2] = {};
                multiply(products);
                tkjit::wgmma_wait<0>(products);
                if (lane == 0) tkjit::mbarrier_arrive(&ring.empty[at.stage]);
                add_scaled(sums, products, finish, row, first_col, step);
                continue;
            }
            multiply(sums);
            tkjit::wgmma_wait<1>(sums);  // the previous step is done with its stage
            if (previous && lane == 0) tkjit::mbarrier_arrive(previous);
            previous = &ring.empty[at.stage];
        }
        tkjit::wgmma_wait<0>(sums);
        if (previous && lane == 0) tkjit::mbarrier_arrive(previous);

        if constexpr (requires { g.partial; }) {
            const auto sync = [] { tkjit::named_barrier_sync(3, kWarpgroup * kConsumers); };
            const auto add = [&](bool first, bool second) {
                return add_splits<kWarpgroup * kConsumers>(g.partial, work.split, threadIdx.x - kWarpgroup, ring.is_last, sums,
                                                           {first, second}, sync);
            };
            if (work.split.count > 1 && !add(row < m, row + 8 < m)) continue;
        }
        // the element of C that is made from the thread's sum `i`, counted without the sums of `g.up`
        const auto element = [&](int i, int to_row, int to_col) {
            if constexpr (is_gated<Problem>) {
                const int gate = i / 32 * 64 + i % 32;  // a box has 32 sums of a thread
                return finish(sums[gate], sums[gate + 32], work.number, to_row, to_col);
            } else {
                return finish(sums[i], work.number, to_row, to_col);
            }
        };
        // TMA would store rows that are not part of the work
        const bool uses_tma = g.c.is_mapped && (work.end_row >= m || work.end_row >= first_row + kSide);
        if constexpr (sizeof(Result) == 2) {
            if (uses_tma) {
                store_boxes<width>(ring.c[consumer], stores, g.c, work.number, first_row, first_col, element);
                continue;
            }
        }
        store_elements<width>(g.c, work, first_row, first_col, element);
    }
    if (is_leader) tkjit::bulk_store_wait_read<0>();  // shared memory is the block's only until it ends
}

/// The work of a block.
template <class Ring, class Problem, class Schedule, class Finish>
__device__ void multiply(Ring& ring, const Problem& g, const Schedule& schedule, Finish finish) {
    if (threadIdx.x == 0) {
        const auto prefetch = [](const auto&... matrices) {
            ((matrices.is_mapped ? tkjit::prefetch_tensor_map(matrices) : void()), ...);
        };
        prefetch(g.a, g.b, g.c);
        if constexpr (is_gated<Problem>) prefetch(g.up);
        for (int stage = 0; stage < Ring::size; ++stage) {
            tkjit::mbarrier_init(&ring.full[stage], copies_by_hand(g) ? kWarpgroup : 1);
            tkjit::mbarrier_init(&ring.empty[stage], kConsumers * kWarpgroup / 32);
        }
        tkjit::fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x < kWarpgroup) {
        tkjit::decrease_registers<56>();
        produce(ring, g, schedule);
    } else {
        tkjit::increase_registers<224>();
        constexpr int half = (is_gated<Problem> ? Ring::cols : kNarrow) / kConsumers;
        if (schedule.shape.rows == kSide) consume<half, false>(ring, g, schedule, finish);
        else if (is_gated<Problem> || schedule.shape.cols == Ring::cols) consume<Ring::cols, true>(ring, g, schedule, finish);
        else if constexpr (!is_gated<Problem>) consume<kNarrow, true>(ring, g, schedule, finish);
    }
}

template <class Ring, class Problem, class Finish>
__device__ void multiply(Ring& ring, const Problem& g, Finish finish) {
    multiply(ring, g, Schedule<Ring>(g), finish);
}

}  // namespace hopper
