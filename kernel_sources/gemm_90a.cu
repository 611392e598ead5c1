// C = A * B, row-major, any M, N and K, for Hopper: a block computes a tile of 128 x TILE_N. One warpgroup starts TMA copies
// of the tiles of A and B into a ring of stages in shared memory. Two others multiply them with wgmma, 64 rows each.
//
// Where a tile extends past A or B, it is filled with zeros. TMA needs the bytes of a row to be a multiple of 16; if they
// are not, the first warpgroup copies the elements itself. float32 uses the code of gemm.cu, because Hopper has no
// full-precision tensor cores.
#include <tkjit/bulk_copy.cuh>
#include <tkjit/mbarrier.cuh>
#include <tkjit/registers.cuh>
#include <tkjit/tensor_map.cuh>
#include <tkjit/wgmma.cuh>

#include "gemm_tile.cuh"

// STAGES and TILE_N are chosen by `tkjit tune gemm`.
constexpr int kWarpgroup = 128, kConsumers = 2, kStages = STAGES;
constexpr int kRows = 64 * kConsumers, kCols = TILE_N, kDepth = 64;  // of a block's tile; a row of kDepth elements is 128 bytes
constexpr int kColsOfBox = 64;                                    // of a box of B; a row of it is also 128 bytes

template <typename T>
struct Problem {
    tkjit::tiled<T, kRows, kDepth> a;
    tkjit::tiled<T, kDepth, kColsOfBox> b;
    tkjit::gl<T, 1, 1> c;
};
template <>
struct Problem<float> {
    tkjit::gl<float, 1, 1> a, b, c;
};

template <typename T>
struct Stage {
    alignas(1024) T a[kRows * kDepth];
    alignas(1024) T b[kCols / kColsOfBox][kDepth * kColsOfBox];
};
template <typename T>
struct Ring {
    Stage<T> stages[kStages];
    uint64_t full[kStages], empty[kStages];
};

/// The launch parameters, which gemm.py refers to.
template <typename T>
struct Launch {
    static constexpr bool is_hopper = sizeof(T) == 2;
    static constexpr int threads = is_hopper ? kWarpgroup * (1 + kConsumers) : kThreads;
    static constexpr size_t shared_bytes = is_hopper ? sizeof(Ring<T>) : 2 * Tile<T>::stage_elements * sizeof(T);
    static constexpr int rows = is_hopper ? kRows : kTileM, cols = is_hopper ? kCols : kTileN;
    static size_t blocks(size_t m, size_t n) { return (m + rows - 1) / rows * ((n + cols - 1) / cols); }
};

/// Copies a tile at (first_row, first_col) as TMA would, with all threads of a warpgroup.
template <typename Tiled, typename T>
__device__ void copy_by_hand(T* tile, const Tiled& matrix, int first_row, int first_col) {
    for (int i = threadIdx.x % kWarpgroup; i < Tiled::tile_rows * Tiled::tile_cols; i += kWarpgroup) {
        const int row = i / Tiled::tile_cols, col = i % Tiled::tile_cols;
        const bool inside = first_row + row < matrix.rows() && first_col + col < matrix.cols();
        const T value = inside ? matrix.raw_ptr[size_t(first_row + row) * matrix.cols() + first_col + col] : T(0.f);
        *reinterpret_cast<T*>(reinterpret_cast<char*>(tile) + tkjit::place_in_tile<Tiled>(row, col)) = value;
    }
}

template <typename T>
__device__ void produce(Ring<T>& ring, const Problem<T>& g, int first_row, int first_col, int steps) {
    const bool by_hand = !g.a.is_mapped || !g.b.is_mapped;
    if (!by_hand && threadIdx.x != 0) return;
    for (int step = 0; step < steps; ++step) {
        const int at = step % kStages;
        tkjit::mbarrier_wait(&ring.empty[at], step / kStages % 2 ^ 1);  // the first round does not wait
        Stage<T>& stage = ring.stages[at];
        if (by_hand) {
            copy_by_hand(stage.a, g.a, first_row, step * kDepth);
            for (int box = 0; box < kCols / kColsOfBox; ++box)
                copy_by_hand(stage.b[box], g.b, step * kDepth, first_col + box * kColsOfBox);
            tkjit::fence_async_proxy();  // because wgmma reads these writes
            tkjit::mbarrier_arrive(&ring.full[at]);
        } else {
            tkjit::mbarrier_arrive_expect_bytes(&ring.full[at], sizeof(Stage<T>));
            tkjit::tensor_load(stage.a, g.a, first_row, step * kDepth, &ring.full[at]);
            for (int box = 0; box < kCols / kColsOfBox; ++box)
                tkjit::tensor_load(stage.b[box], g.b, step * kDepth, first_col + box * kColsOfBox, &ring.full[at]);
        }
    }
}

template <typename T>
__device__ void consume(Ring<T>& ring, const Problem<T>& g, int first_row, int first_col, int steps) {
    const int own_row = (threadIdx.x / kWarpgroup - 1) * 64;
    float sum[kCols / 2] = {};
    for (int step = 0; step < steps; ++step) {
        const int at = step % kStages;
        const Stage<T>& stage = ring.stages[at];
        tkjit::mbarrier_wait(&ring.full[at], step / kStages % 2);
        const auto a = tkjit::wgmma_rows(stage.a + own_row * kDepth);
        const auto b = tkjit::wgmma_columns(stage.b, sizeof(stage.b[0]));
        tkjit::wgmma_fence(sum);
#pragma unroll
        for (int k = 0; k < kDepth / tkjit::wgmma_depth<T>; ++k)
            tkjit::wgmma<kCols, T, true>(sum, a.advanced(k), b.advanced(k));
        tkjit::wgmma_commit();
        tkjit::wgmma_wait<1>(sum);  // the previous step is done with its stage
        if (step > 0) tkjit::mbarrier_arrive(&ring.empty[(step - 1) % kStages]);
    }
    tkjit::wgmma_wait<0>(sum);
#pragma unroll
    for (int i = 0; i < kCols / 2; i += 2) {  // two adjacent elements of a row
        const int row = first_row + own_row + tkjit::wgmma_row(i), col = first_col + tkjit::wgmma_col(i);
        if (row >= g.c.rows() || col >= g.c.cols()) continue;
        T* const to = g.c.raw_ptr + size_t(row) * g.c.cols() + col;
        struct alignas(2 * sizeof(T)) Pair {
            T first, second;
        };
        if (reinterpret_cast<size_t>(to) % sizeof(Pair) == 0 && col + 1 < g.c.cols()) {
            *reinterpret_cast<Pair*>(to) = {T(sum[i]), T(sum[i + 1])};
        } else {
            to[0] = T(sum[i]);
            if (col + 1 < g.c.cols()) to[1] = T(sum[i + 1]);
        }
    }
}

template <typename T>
__device__ void multiply_on_hopper(const Problem<T>& g) {
    TKJIT_DYNAMIC_SHARED(Ring<T>, ring);
    const int tiles_in_row = (g.c.cols() + kCols - 1) / kCols;
    const int first_row = blockIdx.x / tiles_in_row * kRows, first_col = blockIdx.x % tiles_in_row * kCols;
    const int steps = (g.a.cols() + kDepth - 1) / kDepth;
    const bool by_hand = !g.a.is_mapped || !g.b.is_mapped;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < kStages; ++stage) {
            tkjit::mbarrier_init(&ring->full[stage], by_hand ? kWarpgroup : 1);
            tkjit::mbarrier_init(&ring->empty[stage], kConsumers * kWarpgroup);
        }
        tkjit::fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x < kWarpgroup) {
        tkjit::decrease_registers<40>();
        produce(*ring, g, first_row, first_col, steps);
    } else {
        tkjit::increase_registers<232>();
        consume(*ring, g, first_row, first_col, steps);
    }
}

template <typename T>
__global__ void __launch_bounds__(Launch<T>::threads, 1) gemm(const __grid_constant__ Problem<T> g) {
    if constexpr (Launch<T>::is_hopper) {
        multiply_on_hopper(g);
    } else {
        TKJIT_DYNAMIC_SHARED(T, stages);
        multiply(stages, g.a, g.b, g.c);
    }
}
