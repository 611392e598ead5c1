// Computes y = alpha * x with bulk copies in both directions, alternating between two tiles of shared memory. Each
// block loops over the tiles with the grid's stride.
#include <tkjit/bulk_copy.cuh>
#include <tkjit/gl.h>
#include <tkjit/mbarrier.cuh>

constexpr int kThreads = 64, kTile = 128;

__global__ void bulk_scale(const __grid_constant__ Globals g) {
    __shared__ __align__(128) float input[kTile], output[2][kTile];
    __shared__ uint64_t loaded;
    const int tiles = g.x.cols() / kTile;
    if (threadIdx.x == 0) {
        tkjit::mbarrier_init(&loaded, 1);
        tkjit::fence_mbarrier_init();
    }
    __syncthreads();

    int turn = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, turn++) {
        float* const scaled = output[turn % 2];
        if (threadIdx.x == 0) {
            tkjit::mbarrier_arrive_expect_bytes(&loaded, sizeof(input));
            tkjit::bulk_copy_to_shared(input, &g.x[tile * kTile], sizeof(input), &loaded);
            tkjit::bulk_store_wait_read<1>();  // the store of two iterations ago has read its tile
        }
        __syncthreads();
        tkjit::mbarrier_wait(&loaded, turn % 2);
        for (int i = threadIdx.x; i < kTile; i += kThreads) scaled[i] = g.alpha * input[i];
        tkjit::fence_async_proxy();
        __syncthreads();
        if (threadIdx.x == 0) {
            tkjit::bulk_store_to_global(&g.y[tile * kTile], scaled, sizeof(input));
            tkjit::bulk_store_commit();
        }
    }
    if (threadIdx.x == 0) tkjit::bulk_store_wait<0>();
}
