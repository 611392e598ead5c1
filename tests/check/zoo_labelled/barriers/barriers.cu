// Divergent barriers, with a label on each line that the checker warns of, and their clean counterparts.
#include <tkjit/mbarrier.cuh>
#include <tkjit/named_barrier.cuh>

__device__ void two_places(int i) {
    if (i < 32) {
        __syncthreads();  // divergence
    } else {
        __syncthreads();  // divergence
    }
}

__device__ void branch_taken_by_all(const float* x) {
    if (gridDim.x == 2) __syncthreads();
    if (__syncthreads_or(x[threadIdx.x] < 0)) __syncthreads();
}

__device__ void named_by_half_a_warp(int i) {
    if (i % 32 < 16) tkjit::named_barrier_sync(1, 64);  // divergence
}

__device__ void named_by_whole_warps(int i) {
    if (i < 64) tkjit::named_barrier_sync(2, 64);
    if (i < 32) tkjit::named_barrier_arrive(3, 128);
    else tkjit::named_barrier_sync(3, 128);
}

__device__ void mbarrier_in_a_branch(int i) {
    __shared__ uint64_t all, some, again;
    if (i == 0) {
        tkjit::mbarrier_init(&all, 128);
        tkjit::mbarrier_init(&some, 128);
        tkjit::mbarrier_init(&again, 1);
    }
    __syncthreads();
    tkjit::mbarrier_arrive(&all);  // divergence
    if (i == 7) tkjit::mbarrier_arrive(&again);
    tkjit::mbarrier_wait(&all, 0);
    if (i < 96) tkjit::mbarrier_arrive(&some);  // divergence
    __syncthreads();
    if (i == 0) tkjit::mbarrier_init(&all, 3);  // divergence
    if (i == 0) tkjit::mbarrier_invalidate(&again);
    if (i == 0) tkjit::mbarrier_init(&again, 2);
}

__global__ void barriers(Globals g) {
    const int i = threadIdx.x;
    two_places(i);
    branch_taken_by_all(g.x.raw_ptr);
    named_by_half_a_warp(i);
    named_by_whole_warps(i);
    mbarrier_in_a_branch(i);
    if (blockIdx.x == 1) return;
    g.y[i] = g.x[i];
    if (i >= 96) return;
    __syncthreads();  // divergence
    if (i >= 50) return;
}
