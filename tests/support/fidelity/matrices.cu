// ldmatrix, stmatrix and cp.async by one warp, on four contiguous 8 x 8 matrices of 16-bit elements.
#include <tkjit/cp_async.cuh>
#include <tkjit/gl.h>
#include <tkjit/ldmatrix.cuh>
#include <tkjit/stmatrix.cuh>

constexpr int words = 4 * 8 * 4;

// Row 0 is x, copied with cp.async. Row 1 has the first lane % 17 bytes of each 16, followed by zeros.
__device__ void copy(const Globals& g, uint32_t* tile) {
    const int lane = threadIdx.x;
    tkjit::cp_async_16(tile + 4 * lane, &g.x[4 * lane]);
    tkjit::cp_async_commit();
    tkjit::cp_async_16_zero_fill(tile + words + 4 * lane, &g.x[4 * lane], lane % 17);
    tkjit::cp_async_commit();
    tkjit::cp_async_wait<1>();
    for (int i = 0; i < 4; i++) g.copied(0, 4 * lane + i) = tile[4 * lane + i];
    tkjit::cp_async_wait<0>();
    for (int i = 0; i < 4; i++) g.copied(1, 4 * lane + i) = tile[words + 4 * lane + i];
    __syncwarp();
}

// `mode` enumerates x1, x2 and x4, then the same transposed.
template <int count, class Load, class Store>
__device__ void load_and_store(const Globals& g, uint32_t* tile, uint32_t* target, int mode, Load load, Store store) {
    const int lane = threadIdx.x;
    uint32_t fragments[count];
    load(fragments, tile + 4 * (lane % (8 * count)));
    for (int i = 0; i < count; i++) g.loaded(mode, 4 * lane + i) = fragments[i];
    for (int i = 0; i < 4; i++) target[4 * lane + i] = 0;
    for (int i = 0; i < count; i++) fragments[i] = g.x[4 * lane + i];
    __syncwarp();
    store(target + 4 * (lane % (8 * count)), fragments);
    __syncwarp();
    for (int i = 0; i < 4; i++) g.stored(mode, 4 * lane + i) = target[4 * lane + i];
    __syncwarp();
}

#define LOAD_AND_STORE(mode, count, suffix)                                                              \
    load_and_store<count>(                                                                               \
        g, tile, tile + words, mode,                                                                     \
        [](uint32_t (&fragments)[count], const void* row) { tkjit::ldmatrix_##suffix(fragments, row); }, \
        [](void* row, const uint32_t (&fragments)[count]) { tkjit::stmatrix_##suffix(row, fragments); });

__global__ void move_matrices(const __grid_constant__ Globals g) {
    __shared__ __align__(16) uint32_t tile[2 * words];
    copy(g, tile);
    LOAD_AND_STORE(0, 1, x1)
    LOAD_AND_STORE(1, 2, x2)
    LOAD_AND_STORE(2, 4, x4)
    LOAD_AND_STORE(3, 1, x1_trans)
    LOAD_AND_STORE(4, 2, x2_trans)
    LOAD_AND_STORE(5, 4, x4_trans)
}
