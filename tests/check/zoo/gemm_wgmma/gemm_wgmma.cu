// C = A * B^T in bfloat16 with float32 sums. One thread loads tiles into two stages with tensor maps, and a warpgroup
// multiplies them with wgmma: 64 x 64 of C per block, 64 columns of A and B per step. Compile for sm_90a.
#include <tkjit/gl.h>
#include <tkjit/tensor_map.cuh>
#include <tkjit/wgmma.cuh>

constexpr int kTile = 64, kStages = 2;
using T = __nv_bfloat16;

struct Problem {
    tkjit::tiled<T, kTile, kTile> a, b;
    tkjit::gl<T> c;
};

struct Stages {
    alignas(1024) T a[kStages][kTile * kTile], b[kStages][kTile * kTile];
    uint64_t full[kStages], empty[kStages];
};

__device__ void fetch(Stages& stages, const Problem& g, int first_row, int first_col, int steps) {
    for (int step = 0; step < steps; ++step) {
        const int at = step % kStages;
        tkjit::mbarrier_wait(&stages.empty[at], step / kStages % 2 ^ 1);  // the first round does not wait
        tkjit::mbarrier_arrive_expect_bytes(&stages.full[at], sizeof(stages.a[0]) + sizeof(stages.b[0]));
        tkjit::tensor_load(stages.a[at], g.a, first_row, step * kTile, &stages.full[at]);
        tkjit::tensor_load(stages.b[at], g.b, first_col, step * kTile, &stages.full[at]);
    }
}

__device__ void multiply(Stages& stages, const Problem& g, int first_row, int first_col, int steps) {
    float sum[kTile / 2] = {};
    for (int step = 0; step < steps; ++step) {
        const int at = step % kStages;
        tkjit::mbarrier_wait(&stages.full[at], step / kStages % 2);
        const auto a = tkjit::wgmma_rows(stages.a[at]), b = tkjit::wgmma_rows(stages.b[at]);
        tkjit::wgmma_fence(sum);
        for (int k = 0; k < kTile / tkjit::wgmma_depth<T>; ++k) tkjit::wgmma<kTile, T>(sum, a.advanced(k), b.advanced(k));
        tkjit::wgmma_commit();
        tkjit::wgmma_wait<0>(sum);
        tkjit::mbarrier_arrive(&stages.empty[at]);
    }
    for (int i = 0; i < kTile / 2; ++i) {
        const int row = first_row + tkjit::wgmma_row(i), col = first_col + tkjit::wgmma_col(i);
        if (row < g.c.rows() && col < g.c.cols()) g.c(row, col) = sum[i];
    }
}

__global__ void gemm_wgmma(const __grid_constant__ Problem g) {
    __shared__ Stages stages;
    const int first_row = blockIdx.y * kTile, first_col = blockIdx.x * kTile, steps = (g.a.cols() + kTile - 1) / kTile;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < kStages; ++stage) {
            tkjit::mbarrier_init(&stages.full[stage], 1);
            tkjit::mbarrier_init(&stages.empty[stage], 128);
        }
        tkjit::fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        multiply(stages, g, first_row, first_col, steps);
    } else if (threadIdx.x == 128) {
        fetch(stages, g, first_row, first_col, steps);
    }
}
