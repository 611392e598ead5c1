// Computes y = x^T with tensor maps in both directions, in inline PTX. Each block visits 32 x 32 tiles in a
// grid-stride loop, and loads the next tile while it transposes the current one.
#include <tkjit/tensor_map.cuh>

constexpr int kThreads = 64, kTile = 32;

struct Problem {
    tkjit::tiled<float, kTile, kTile, 0> x, y;  // no swizzle
};

__device__ unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

__device__ void init(uint64_t* barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)));
}

__device__ void wait(uint64_t* barrier, int parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}\n" ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}

__device__ void load(float* tile, const CUtensorMap* map, int row, int col, uint64_t* barrier) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
                 "r"(kTile * kTile * 4));
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
                 ::"r"(shared_address(tile)), "l"(map), "r"(shared_address(barrier)), "r"(col), "r"(row) : "memory");
}

__device__ void store(const CUtensorMap* map, int row, int col, const float* tile) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];"
                 ::"l"(map), "r"(shared_address(tile)), "r"(col), "r"(row) : "memory");
    asm volatile("cp.async.bulk.commit_group;");
}

__global__ void tma_transpose(const __grid_constant__ Problem g) {
    __shared__ __align__(1024) float input[2][kTile * kTile], output[kTile * kTile];
    __shared__ uint64_t loaded[2];
    const int across = (g.x.cols() + kTile - 1) / kTile, tiles = (g.x.rows() + kTile - 1) / kTile * across;
    if (threadIdx.x == 0) {
        init(&loaded[0]);
        init(&loaded[1]);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();

    const auto fetch = [&](int tile, int stage) {
        load(input[stage], &g.x.map, tile / across * kTile, tile % across * kTile, &loaded[stage]);
    };
    if (threadIdx.x == 0 && blockIdx.x < tiles) fetch(blockIdx.x, 0);
    int turn = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, ++turn) {
        const int stage = turn % 2;
        if (threadIdx.x == 0) {
            if (tile + gridDim.x < tiles) fetch(tile + gridDim.x, 1 - stage);
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");  // the previous store has read `output`
        }
        __syncthreads();
        wait(&loaded[stage], turn / 2 % 2);
        for (int i = threadIdx.x; i < kTile * kTile; i += kThreads) {
            output[i] = input[stage][i % kTile * kTile + i / kTile];
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0) store(&g.y.map, tile % across * kTile, tile / across * kTile, output);
    }
    if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
