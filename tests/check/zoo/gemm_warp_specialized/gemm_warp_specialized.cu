// C = A * B in float32 with specialised warps. One thread of the producer warp starts bulk copies of both tiles' rows
// to a ring of stages, and four consumer warps compute from them. Each stage has two mbarriers: full and empty.
#include <tkjit/bulk_copy.cuh>
#include <tkjit/gl.h>
#include <tkjit/mbarrier.cuh>

constexpr int kConsumers = 128, kStages = 3, kTile = 32, kStep = 16;

struct Stage {
    float a[kTile][kStep];
    float b[kStep][kTile];
};

__global__ void gemm_warp_specialized(const __grid_constant__ Globals g) {
    __shared__ __align__(128) Stage stages[kStages];
    __shared__ uint64_t full[kStages], empty[kStages];
    const int first_row = blockIdx.y * kTile, first_col = blockIdx.x * kTile;
    const int steps = g.a.cols() / kStep;

    if (threadIdx.x == 0) {
        for (int i = 0; i < kStages; i++) {
            tkjit::mbarrier_init(&full[i], 1);
            tkjit::mbarrier_init(&empty[i], kConsumers);
        }
        tkjit::fence_mbarrier_init();
    }
    __syncthreads();

    if (threadIdx.x >= kConsumers) {
        if (threadIdx.x > kConsumers) return;
        for (int step = 0; step < steps; step++) {
            const int i = step % kStages, round = step / kStages;
            Stage& stage = stages[i];
            tkjit::mbarrier_wait(&empty[i], (round + 1) % 2);  // the first round does not wait
            tkjit::mbarrier_arrive_expect_bytes(&full[i], sizeof(Stage));
            for (int row = 0; row < kTile; row++) {
                const float* source = &g.a(first_row + row, step * kStep);
                tkjit::bulk_copy_to_shared(stage.a[row], source, sizeof(stage.a[row]), &full[i]);
            }
            for (int row = 0; row < kStep; row++) {
                const float* source = &g.b(step * kStep + row, first_col);
                tkjit::bulk_copy_to_shared(stage.b[row], source, sizeof(stage.b[row]), &full[i]);
            }
        }
        return;
    }

    const int row = threadIdx.x / 8 * 2, col = threadIdx.x % 8 * 4;
    float sum[2][4] = {};
    for (int step = 0; step < steps; step++) {
        const int i = step % kStages, round = step / kStages;
        const Stage& stage = stages[i];
        tkjit::mbarrier_wait(&full[i], round % 2);
        for (int k = 0; k < kStep; k++) {
            for (int m = 0; m < 2; m++) {
                for (int n = 0; n < 4; n++) sum[m][n] += stage.a[row + m][k] * stage.b[k][col + n];
            }
        }
        tkjit::mbarrier_arrive(&empty[i]);
    }
    for (int m = 0; m < 2; m++) {
        for (int n = 0; n < 4; n++) g.c(first_row + row + m, first_col + col + n) = sum[m][n];
    }
}
